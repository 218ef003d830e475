"""The figure of the faster forms."""

import pytest
from safetensors.torch import load_file

from songrank_paper.ablations import FigAblation, FigBilevel, FigTheoPrac
from songrank_paper.faster import FigFaster
from songrank_paper.protocol import SetProtocol
from tests.songrank_paper.small_training import TINY, chosen_first, do, plan


def test_faster_forms_are_drawn_against_epochs_and_seconds(small):
    settings, folder = small
    changes = (*TINY, "batch.queries=10", "batch.irrelevant=5")
    found, findings = do(FigFaster(changes), settings, folder)
    (steps,), (seconds,) = (findings.figures[name].axes for name in ("curves", "seconds"))
    labels = ["SONG", "K-SONG", "Faster SONG", "Faster K-SONG"]
    assert [line.get_label() for line in steps.get_lines()] == labels
    each = SetProtocol(settings, "movielens-1m", changes)
    figure = FigFaster(changes)
    for line, timed, method in zip(steps.get_lines(), seconds.get_lines(), figure.tuned(each), strict=True):
        (training,) = each.reported(method, found)
        result = found[training.cell.key]
        assert training.cell.options["recipe"]["loss"]["name"] == method.name
        assert list(line.get_ydata()) == list(timed.get_ydata()) == [value for _, value in result["curve"]]
        clock = found[figure.timings(each, found)[method.title].cell.key]["seconds"]
        assert list(timed.get_xdata()) == pytest.approx([epoch * clock for epoch, _ in result["curve"]])


def test_forms_are_compared_with_the_first_on_test_by_query(small):
    settings, folder = small
    changes = (*TINY, "batch.queries=10", "batch.irrelevant=5")
    found, findings = do(FigFaster(changes), settings, folder)
    each = SetProtocol(settings, "movielens-1m", changes)
    song, faster = (each.method("song"), FigFaster(changes).tuned(each)[2])
    values = [
        load_file(folder / "cells" / each.reported(one, found)[0].cell.key / "run/evaluation/test.safetensors")
        for one in (song, faster)
    ]
    table = findings.tables["differences"]
    rows = {(row[1], row[3]): row for row in table.rows}
    assert len(rows) == 3 * len(each.metrics)
    for metric in each.metrics:
        _, _, less, _, difference, low, high = rows["Faster SONG", metric]
        expected = float((values[1][metric].double() - values[0][metric].double()).nanmean())
        assert less == "SONG"
        assert difference == pytest.approx(expected, abs=1e-5)
        assert low <= difference <= high


@pytest.mark.parametrize("figure", [FigFaster, FigAblation, FigTheoPrac, FigBilevel])
def test_what_diverged_is_said_and_left_out_of_the_comparison(small, figure):
    settings, _ = small
    made = figure(TINY)
    settings = plan((0, 1), movielens_1m=settings.data["movielens-1m"])
    each = SetProtocol(settings, "movielens-1m", TINY)
    found = chosen_first(made, each, {each.warm_up(seed).cell.key: {} for seed in (0, 1, 1_000_000)})
    lines = made.panels(each, found)[each.panel]
    result = {"curve": [[1, 0.1], [2, 0.2]], "metrics": {"test": {"ndcg@20": 0.2}}}
    for place, own in enumerate(lines.values()):
        for one in own:
            found[one.cell.key] = {"diverged": "step 3"} if place == len(lines) - 1 and one is own[1] else result
    timings = made.timings(each, found) if figure is FigFaster else {}
    found |= {one.cell.key: {"seconds": 2.0} for one in timings.values()}
    compared = [cell for cell in made.cells(settings, found) if cell.key not in found]
    first, *others, last = lines
    assert [list(cell.options["runs"]) for cell in compared] == ([[first, *others]] if others else [])
    found |= {cell.key: {"summaries": {first: {}}, "differences": {}} for cell in compared}
    assert f"{each.panel}: {last} diverged with 1 of 2 seeds." in made.show(settings, found).remarks
