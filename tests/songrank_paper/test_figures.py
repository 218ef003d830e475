"""The figures that train: which runs they draw, and that what is drawn is what was measured."""

import pytest

pytest.importorskip("matplotlib")

import torch
from safetensors.torch import load_file

from songrank import Relevance, SlateSampler
from songrank.training.config.recipe import Recipe
from songrank.training.run import Run
from songrank_paper.ablations import GAMMAS, FigAblation, FigBilevel, FigGamma, FigTheoPrac
from songrank_paper.convergence import FigConvergence
from songrank_paper.faster import FigFaster
from songrank_paper.full_items import FigFullItems, likelihood
from songrank_paper.peers import FigPeers
from songrank_paper.protocol import SetProtocol, waiting
from songrank_paper.tables import TableLtr, TableRs
from tests.songrank_paper.small_training import TINY, do, lists, plan, users


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A plan with one seed and two small sets, and one folder for all cells."""
    folder = tmp_path_factory.mktemp("figures")
    return plan((0,), movielens_1m=users(folder / "users"), mq2008=lists(folder / "lists")), folder


def recipes(lines):
    return {label: [one.cell.options["recipe"] for one in trainings] for label, trainings in lines.items()}


def differing(one, other, path=()):
    """Dotted keys by which two recipes differ."""
    if not (isinstance(one, dict) and isinstance(other, dict)):
        return {".".join(path)} if one != other else set()
    return {
        key for name in one.keys() | other.keys() for key in differing(one.get(name), other.get(name), (*path, name))
    }


def chosen_first(figure, each, found=()):
    """Results by which the first setting of every method is chosen."""
    results = dict(found)
    for method in figure.tuned(each):
        for place, training in enumerate(each.tuning(method).values()):
            results[training.cell.key] = {"metrics": {"validation": {each.chosen_by: 0.5 - 0.1 * place}}}
    return results


# ---- which runs are compared


def test_convergence_is_that_of_the_runs_in_the_tables(small):
    settings, _ = small
    figure, found = FigConvergence(TINY), {}
    for name in settings.data:
        found |= chosen_first(figure, SetProtocol(settings, name, TINY))
    for seed in (0, 1_000_000):
        found |= {SetProtocol(settings, name, TINY).warm_up(seed).cell.key: {} for name in settings.data}
    tables = {cell.key for table in (TableRs(TINY), TableLtr(TINY)) for cell in table.cells(settings, found)}
    cells = figure.cells(settings, found)
    assert len(cells) == 2 * (2 + 8 * (2 + 1))
    assert {cell.key for cell in cells} == tables


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
    assert "whole lists" in figure.remarks(each, found)[0]


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


# ---- what is drawn


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


def test_full_items_training_has_no_noise_to_average(small):
    settings, folder = small
    found, findings = do(FigFullItems(TINY), settings, folder)
    assert [line.get_label() for line in findings.figures["likelihood"].axes[0].get_lines()] == [
        "full items",
        "mini-batch, γ = 1",
        "moving average, γ = 0.1",
    ]
    values = {row[1]: row for row in findings.tables["likelihood"].rows}
    assert all(0 < row[5] < 2 * torch.tensor(30.0).log() for row in values.values())
    each = SetProtocol(settings, "movielens-1m", TINY)
    full = recipes(FigFullItems(TINY).panels(each, found)["movielens-1m (synthetic)"])["full items"][0]
    assert (full["batch"]["irrelevant"], full["loss"]["gamma"]) == ("all", 1.0)


def test_a_warm_up_by_likelihood_that_diverged_is_said(small):
    settings = plan((0, 1), movielens_1m=small[0].data["movielens-1m"])
    figure, each = FigFullItems(TINY), SetProtocol(settings, "movielens-1m", TINY)
    found = chosen_first(figure, each)
    while missing := [cell for cell in figure.cells(settings, found) if cell.key not in found]:
        for cell in missing:
            lost = cell.name == "movielens-1m: warm-up by likelihood, full items, seed 1"
            found[cell.key] = {"diverged": "step 3"} if lost else {"curve": [[1, 3.0], [2, 2.0]]}
    remarks = figure.show(settings, found).remarks
    said = [remark for remark in remarks if "diverged" in remark]
    assert said == ["movielens-1m (synthetic), warm-up: full items diverged with 1 of 2 seeds."]


def test_the_likelihood_is_that_of_each_training_pair_among_all_items(small, tmp_path):
    settings, _ = small
    each = SetProtocol(settings, "movielens-1m", TINY)
    cell = each.warm_up(0).cell
    recipe = Recipe.read({**cell.options["recipe"], "data": cell.where["path"], "device": "cpu"})
    run = Run.begin(recipe, tmp_path / "run", splits=())
    query, item, _ = each.dataset["train"].unique_pairs()
    scores = run.trainer.model.eval().score_all(torch.arange(40)).detach().double()
    by_query = []
    for user in query.unique().tolist():
        own = [float(scores[user].exp().sum().log() - scores[user, i]) for i in item[query == user].tolist()]
        by_query.append(sum(own) / len(own))
    assert likelihood(run) == pytest.approx(sum(by_query) / len(by_query), rel=1e-9)


def test_peers_train_as_long_and_the_clock_runs(small):
    settings, folder = small
    _, findings = do(FigPeers(TINY), settings, folder)
    lines = {line.get_label(): list(line.get_xdata()) for line in findings.figures["curves"].axes[0].get_lines()}
    assert {"SONG", "K-SONG", "ListNet", "ListMLE", "ApproxNDCG", "Gumbel-ApproxNDCG"} <= lines.keys()
    assert all(epochs == [1, 2, 3, 4, 5] for epochs in lines.values())
    assert all(row[1] > 0 for row in findings.tables["seconds"].rows)
    assert len(findings.tables["seconds"].rows) == len(lines)
    assert any("TensorFlow Ranking itself was not run" in remark for remark in findings.remarks)


def test_peers_that_diverge_are_said_and_left_out(small):
    settings = plan((0, 1), movielens_1m=small[0].data["movielens-1m"])
    figure, found = FigPeers(TINY), {}
    while missing := [cell for cell in figure.cells(settings, found) if cell.key not in found]:
        for cell in missing:
            lost = cell.options["recipe"]["loss"]["name"] == "listmle" and cell.options["recipe"]["seed"] == 0
            result = {"seconds": 2.0, "curve": [[1, 0.1], [2, 0.2]], "warm_up": []}
            found[cell.key] = {"diverged": "step 3"} if lost else result
            assert cell.timed == cell.name.endswith("by the clock, seed 0")
    findings = figure.show(settings, found)
    assert "movielens-1m: ListMLE diverged with 1 of 2 seeds." in findings.remarks
    assert "ListMLE diverged within the epochs that were timed." in findings.remarks
    assert "ListMLE" not in [row[0] for row in findings.tables["seconds"].rows]


def test_libaucs_loss_is_its_own_and_rows_of_padding_do_not_count():
    ranking = pytest.importorskip("libauc.losses.ranking")
    from songrank_paper.peer_runs import LibaucSONG

    query, item = [q for q in range(5) for _ in range(3)], [(3 * q + i) % 12 for q in range(5) for i in range(3)]
    relevance = Relevance.from_pairs(query, item, [1.0, 2.0, 3.0] * 5, num_items=12)
    padded = list(SlateSampler(relevance, 3, 3, 4, partial="pad"))[-1]
    short = list(SlateSampler(relevance, 3, 3, 4))[-1]
    ours = LibaucSONG(relevance.num_pairs, 5, 12, 3, gamma=0.3)
    theirs = ranking.NDCGLoss(N=relevance.num_pairs, num_user=5, num_item=12, num_pos=3, gamma0=0.3, device="cpu")
    scores = torch.randn(3, 7, generator=torch.Generator().manual_seed(0), requires_grad=True)
    value = ours(scores, padded)
    value.backward()
    own = scores.detach()[:2].requires_grad_()
    batch = {"rating": short.label, "user_id": short.query, "num_pos_items": short.num_relevant}
    expected = theirs(own, batch | {"ideal_dcg": short.ideal_dcg, "user_item_id": short.pair})
    expected.backward()
    assert value.item() == pytest.approx(expected.item())
    torch.testing.assert_close(scores.grad[:2], own.grad)
    assert not scores.grad[2].any()


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
