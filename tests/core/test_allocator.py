"""What is freed stays with the process: steps do not ask the system for the same pages again and again."""

import platform
import subprocess
import sys

import pytest

from songrank.cli import main as command
from songrank.core import allocator as freed_memory

_FAULTS = """
import resource, torch
from songrank.core.allocator import keep_freed_memory
torch.set_num_threads(1)
assert not {keep} or keep_freed_memory()

def step():
    made = [torch.ones(5_000_000) for _ in range(4)]      # 20 MB each, freed together as a graph's tensors are

step(), step()                                            # until the heap has grown to what it needs
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def _faults(keep: bool) -> int:
    done = subprocess.run(
        [sys.executable, "-c", _FAULTS.format(keep=keep)], capture_output=True, text=True, check=True, timeout=120
    )
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc is what is asked to keep memory")
def test_pages_are_asked_for_once():
    # Ten steps write 195,000 pages of 4 KB; that the system hands them out anew is what must not be.
    kept, given_back = _faults(keep=True), _faults(keep=False)
    assert kept < 20_000
    assert given_back >= kept  # by chance glibc keeps as much: it gives back only what is at the end of the heap


def test_other_systems_are_left_alone(monkeypatch):
    monkeypatch.setattr(freed_memory.sys, "platform", "darwin")
    assert freed_memory.keep_freed_memory() is False


def test_a_library_without_the_call_is_left_alone(monkeypatch):
    monkeypatch.setattr(freed_memory.ctypes, "CDLL", lambda name: object())
    assert freed_memory.keep_freed_memory() is False


def test_the_command_keeps_what_it_frees(monkeypatch, capsys):
    asked = []
    module = sys.modules["songrank.cli.main"]
    monkeypatch.setattr(module, "keep_freed_memory", lambda: asked.append(True))
    monkeypatch.setattr(sys, "argv", ["songrank", "--version"])
    with pytest.raises(SystemExit) as ended:
        command()
    assert (ended.value.code, asked) == (0, [True])
    assert capsys.readouterr().out.strip()
