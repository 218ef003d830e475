"""What tests of all rooms share."""

import os
import signal
import sys
from types import SimpleNamespace

import pytest

os.environ.setdefault("NUMBA_DISABLE_JIT", "1")  # ranx would compile for a minute what runs in a tenth of a second

import torch

# One thread a worker: two workers with two threads each on two cores only wait for one another.
torch.set_num_threads(1)


@pytest.fixture
def songrank(capfd, monkeypatch):
    """The command in this process, since starting one takes seconds; signals and some calls are real processes."""
    from songrank.cli import main

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["songrank", *map(str, words)])
        monkeypatch.setattr(signal, "signal", lambda *_: None)
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capfd.readouterr()
        return SimpleNamespace(returncode=ended.value.code, stdout=out, stderr=err)

    return run
