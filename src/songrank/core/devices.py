"""Device names of recipes and commands."""

import torch

from songrank.core.errors import UserError


def choose_device(word: str) -> torch.device:
    """Resolve a device name; ``auto`` selects a GPU if available."""
    if word == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    kind, _, number = word.partition(":")
    if kind not in ("cpu", "cuda") or not (number or "0").isdecimal():
        raise UserError(f"device is {word!r}; expected auto, cpu, cuda or cuda:0")
    if kind == "cuda" and int(number or 0) >= torch.cuda.device_count():
        raise UserError(f"device is {word!r}, but {torch.cuda.device_count()} CUDA devices are available")
    return torch.device(word)
