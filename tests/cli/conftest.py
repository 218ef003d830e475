"""The command in this process, since starting one takes seconds; signals and a few plain calls are real processes."""

import signal
import sys
from types import SimpleNamespace

import pytest

from songrank.cli import main


@pytest.fixture
def songrank(capfd, monkeypatch):
    def run(*words):
        monkeypatch.setattr(sys, "argv", ["songrank", *map(str, words)])
        monkeypatch.setattr(signal, "signal", lambda *_: None)
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capfd.readouterr()
        return SimpleNamespace(returncode=ended.value.code, stdout=out, stderr=err)

    return run
