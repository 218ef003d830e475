"""Progress bars."""

import pytest
from rich.console import Console

from songrank.cli import progress
from songrank.cli.training_view import TrainingView


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


@pytest.mark.parametrize(("epochs", "every"), [(3, 1), (12, 1), (60, 1), (60, 4), (100, 0)])
def test_without_a_terminal_a_stage_has_about_ten_lines(capsys, epochs, every):
    view = TrainingView(quiet=False, as_json=False)
    view.stages({"warm-up": epochs}, evaluates=every > 0)
    for epoch in range(1, epochs + 1):
        line = {"stage": "warm-up", "epoch": epoch, "step": epoch, "objective": 0.5}
        due = every and (epoch % every == 0 or epoch == epochs)
        view.observe(line | ({"validation ndcg@10": 0.25} if due else {}))
    lines = capsys.readouterr().err.splitlines()
    assert min(epochs, 10) <= len(lines) <= 11
    assert lines[-1] == f"warm-up {epochs}/{epochs}: objective 0.5000" + (
        ", validation ndcg@10 0.2500" if every else ""
    )
