"""What tests of all rooms share."""

import gc
import os
import signal
import sys
from types import SimpleNamespace

import pytest

os.environ.setdefault("NUMBA_DISABLE_JIT", "1")  # ranx would compile for a minute what runs in a tenth of a second

import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # kernels run on a CPU too; read when triton is first imported

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


@pytest.fixture(autouse=True, scope="module")
def _no_garbage_of_generated_code():
    """Optuna's database leaves generated classes whose entries in ``linecache`` go with them: a collection in the midst
    of a later docstring example would change that table while ``doctest`` walks over it."""
    yield
    if "optuna" in sys.modules:
        gc.collect()
