"""Stopping in good order, on systems that have some signals and not others."""

import errno
import importlib
import os
import signal
import subprocess
import sys

import pytest

from songrank.cli.signals import known_signals, stoppable

command = importlib.import_module("songrank.cli.main")  # the package has a function of this name
SIGNALS = [number for name in ("SIGINT", "SIGTERM", "SIGHUP") if (number := getattr(signal, name, None)) is not None]


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_calls_stop_and_handlers_are_restored(number):
    before, calls = signal.getsignal(number), []
    with stoppable(lambda: calls.append(1)) as received:
        signal.raise_signal(number)
    assert (calls, received) == ([1], [number])
    assert signal.getsignal(number) is before


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="this system has no SIGHUP")
def test_nohup_is_respected():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert known_signals("SIGTERM", "SIGHUP") == [signal.SIGTERM]
        with stoppable(lambda: None):
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_second_interrupt_ends_at_once():
    with stoppable(lambda: None):
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_signals_that_the_system_does_not_have_are_left_alone(monkeypatch):
    monkeypatch.delattr(signal, "SIGTERM", raising=False)
    assert known_signals("SIGINT", "SIGTERM") == [signal.SIGINT]
    assert known_signals("SIGINT", "SIGNOTHING") == [signal.SIGINT]
    calls = []
    with stoppable(lambda: calls.append(1)):
        signal.raise_signal(signal.SIGINT)
    assert calls == [1]


def test_the_command_runs_without_sigterm():
    code = "import torch, signal, sys; del signal.SIGTERM; sys.argv[1:] = ['--version']; import songrank_command"
    done = subprocess.run([sys.executable, "-c", f"{code}; songrank_command.main()"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("0.")


class WithoutNumber:
    """A stream that is no file, as in a notebook."""

    def write(self, text):
        raise OSError(errno.EINVAL, "Invalid argument")

    flush = fileno = property(lambda self: (_ for _ in ()).throw(OSError("no file")))


@pytest.mark.parametrize(
    ("system", "error", "code"),
    [
        ("posix", BrokenPipeError(errno.EPIPE, "Broken pipe"), 0),
        ("nt", OSError(errno.EINVAL, "Invalid argument"), 0),
        ("posix", OSError(errno.EINVAL, "Invalid argument"), None),
    ],
)
def test_a_reader_that_is_gone_is_no_error(system, error, code, monkeypatch):
    def fail(**more):
        raise error

    monkeypatch.setattr(command, "app", fail)
    monkeypatch.setattr(command, "keep_freed_memory", lambda: False)
    monkeypatch.setattr(command.sys, "stdout", WithoutNumber())
    monkeypatch.setattr(command.signal, "signal", lambda number, handler: None)
    monkeypatch.setattr(command.os, "name", system)
    with pytest.raises(OSError if code is None else SystemExit) as raised:
        command.main()
    monkeypatch.setattr(os, "name", "posix")
    assert code is None or raised.value.code == code
