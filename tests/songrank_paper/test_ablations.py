"""Figures of the ablations."""

import pytest

from songrank_paper.ablations import GAMMAS, FigAblation, FigBilevel, FigGamma, FigTheoPrac
from songrank_paper.protocol import SetProtocol
from tests.songrank_paper.small_training import TINY, chosen_first, do, recipes


def differing(one, other, path=()):
    """Dotted keys by which two recipes differ."""
    if not (isinstance(one, dict) and isinstance(other, dict)):
        return {".".join(path)} if one != other else set()
    return {
        key for name in one.keys() | other.keys() for key in differing(one.get(name), other.get(name), (*path, name))
    }


def test_ablations_differ_in_what_they_leave_out_and_nothing_else(small):
    settings, _ = small
    figure, each = FigAblation(TINY), SetProtocol(settings, "movielens-1m", TINY)
    lines = figure.panels(each, chosen_first(figure, each))["movielens-1m (synthetic)"]
    whole, biased, cold = (own[0] for own in recipes(lines).values())
    assert (whole["loss"]["gamma"], biased["loss"]["gamma"]) == (0.1, 1.0)
    assert differing(whole, biased) == {"loss.gamma"}
    assert differing(whole, cold) <= {"warm_up.epochs", "fine_tuning.epochs"} | {
        f"fine_tuning.decay.{epoch}" for epoch in (2, 4)
    }
    assert (cold["warm_up"]["epochs"], cold["fine_tuning"]["epochs"]) == (0, 2 + 3)
    assert {int(epoch): factor for epoch, factor in cold["fine_tuning"]["decay"].items()} == {2 + 2: 0.25}
    assert [one.after is None for own in lines.values() for one in own] == [False, False, True]


def test_a_moving_average_is_drawn_even_where_none_was_chosen(small):
    settings, _ = small
    figure, each = FigAblation(TINY), SetProtocol(settings, "mq2008", TINY)
    found = chosen_first(figure, each)
    keys = [training.cell.key for training in each.tuning(each.method("song")).values()]
    found[keys[1]] = {"metrics": {"validation": {"ndcg@5": 0.9}}}  # γ = 1
    labels = list(figure.panels(each, found)["mq2008 (synthetic)"])
    assert labels[0] == "SONG, γ = 0.3"
    assert "slates are complete lists" in figure.remarks(each, found)[0]


@pytest.mark.parametrize(
    ("figure", "key"), [(FigTheoPrac(TINY), "loss.mode"), (FigBilevel(TINY), "loss.form.selection")]
)
def test_both_forms_of_k_song_are_tuned_alike_and_differ_in_one_option(small, figure, key):
    settings, _ = small
    each = SetProtocol(settings, "movielens-1m", TINY)
    plain, changed = figure.tuned(each)
    for one, other in zip(each.tuning(plain).values(), each.tuning(changed).values(), strict=True):
        assert differing(one.cell.options["recipe"], other.cell.options["recipe"]) == {key}
    assert each.tuning(plain).keys() == each.tuning(each.method("k-song")).keys()


def test_gamma_is_drawn_for_warm_up_and_song(small):
    settings, folder = small
    changes = (*TINY, "batch.queries=10", "batch.irrelevant=5", "fine_tuning.learning_rate=0.05")
    found, findings = do(FigGamma(changes), settings, folder)
    warm_up, song = findings.figures["curves"].axes
    for axes, epochs in ((warm_up, [1, 2]), (song, [1, 2, 3])):
        assert [line.get_label() for line in axes.get_lines()] == [f"γ₀ = {gamma}" for gamma in GAMMAS]
        assert all(list(line.get_xdata()) == epochs for line in axes.get_lines())
    each = SetProtocol(settings, "movielens-1m", changes)
    shown = found[each.warm_up(0, "warm_up.loss.gamma=0.7").cell.key]["curve"]
    assert list(warm_up.get_lines()[3].get_ydata()) == [value for _, value in shown]
    assert len({tuple(line.get_ydata()) for line in song.get_lines()}) > 1
    assert {row[1] for row in findings.tables["test"].rows} == {f"γ₀ = {gamma}" for gamma in GAMMAS}
