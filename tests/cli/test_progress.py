"""Progress bars."""

import pytest
from rich.console import Console

from songrank.cli import progress


@pytest.mark.parametrize(
    ("quiet", "terminal", "shown"), [(False, True, True), (True, True, False), (False, False, False)]
)
def test_a_bar_is_drawn_on_a_terminal_unless_quiet(monkeypatch, quiet, terminal, shown):
    monkeypatch.setattr(progress, "Console", lambda stderr: Console(stderr=stderr, force_terminal=terminal))
    with progress.progress_bar(quiet) as report:
        assert (report is not None) == shown
        if report is not None:
            report("reading", 1, 2)
            report("writing", 1, None)
