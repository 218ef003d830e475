"""Devices by the names that recipes and commands give them."""

import torch

from songrank.core.errors import UserError


def choose_device(word: str) -> torch.device:
    """The device that a recipe names; ``auto`` is a GPU if there is one."""
    if word == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    kind, _, number = word.partition(":")
    if kind not in ("cpu", "cuda") or not (number or "0").isdecimal():
        raise UserError(f"device is {word!r}; expected auto, cpu, cuda or cuda:0")
    if kind == "cuda" and int(number or 0) >= torch.cuda.device_count():
        raise UserError(f"device is {word!r}, and this machine shows {torch.cuda.device_count()} GPUs to torch")
    return torch.device(word)
