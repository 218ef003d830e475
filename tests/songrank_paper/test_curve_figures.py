"""Figures of curves."""

from songrank_paper.ablations import FigAblation
from songrank_paper.convergence import FigConvergence
from songrank_paper.protocol import SetProtocol, waiting
from tests.songrank_paper.small_training import TINY, chosen_first, plan


def test_cells_of_figures_wait_for_their_settings(small):
    settings, _ = small
    each = SetProtocol(settings, "movielens-1m", TINY)
    known = FigAblation(TINY).cells(settings, {})
    assert {cell.options["recipe"]["seed"] for cell in known} == {1_000_000}
    tuning = each.tuning(each.method("song")).values()
    found = {cell.key: {} for cell in known}
    assert {cell.key for cell in waiting(tuning, found)} <= {
        cell.key for cell in FigAblation(TINY).cells(settings, found)
    }


def test_curves_among_sampled_items_say_so(small):
    settings, _ = small
    each = SetProtocol(plan(netflix=settings.data["movielens-1m"]), "netflix", TINY)
    figure = FigConvergence(TINY)
    assert list(figure.panels(each, chosen_first(figure, each))) == ["netflix (synthetic), among 1000 sampled"]
