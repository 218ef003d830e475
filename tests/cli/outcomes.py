"""What commands leave behind, and how they refuse."""

import torch
from safetensors.torch import load_file


def weights(run):
    return load_file(run / "model.safetensors")


def same_weights(one, other):
    assert weights(one).keys() == weights(other).keys()
    return all(torch.equal(value, weights(other)[name]) for name, value in weights(one).items())


def refused(done, message):
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert message in done.stderr
