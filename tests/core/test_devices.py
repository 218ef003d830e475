"""Device names of recipes and commands."""

import pytest
import torch

from songrank.core.devices import choose_device
from songrank.core.errors import UserError


@pytest.mark.parametrize(("available", "found"), [(True, "cuda"), (False, "cpu")])
def test_auto_is_a_gpu_if_there_is_one(monkeypatch, available, found):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: available)
    assert choose_device("auto").type == found


def test_a_cpu_is_named_as_torch_does():
    assert choose_device("cpu") == torch.device("cpu")


def test_gpus_are_counted(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert choose_device("cuda:1") == torch.device("cuda", 1)
    with pytest.raises(UserError, match="^device is 'cuda:2', but 2 CUDA devices are available$"):
        choose_device("cuda:2")


@pytest.mark.parametrize("word", ["gpu", "cuda:x", "", "cpu:-1", "mps"])
def test_unknown_names_are_rejected(word):
    with pytest.raises(UserError, match="expected auto, cpu, cuda or cuda:0$"):
        choose_device(word)
