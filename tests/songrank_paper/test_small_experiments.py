"""The experiments that train little or nothing: functions, statistics, complexity, and the stop gradient."""

import math

import pytest
import torch

pytest.importorskip("matplotlib")

from songrank import KSONG, Slate
from songrank.data import open_dataset, prepare
from songrank.functional import smooth_threshold
from songrank.losses.ksong import ThresholdOptions
from songrank.losses.paper_form import PaperForm
from songrank.training.config.recipe_files import load_recipe
from songrank_paper import load_all, load_experiment, stop_gradient
from songrank_paper.cells import Store, results, run_cells
from songrank_paper.complexity import FigComplexity, measure
from songrank_paper.data_sets import SETS
from songrank_paper.experiment import Plan
from songrank_paper.functions import FigFunctions, smoothed_hinge
from songrank_paper.given_sets import DataSets
from songrank_paper.stats import TableStats
from songrank_paper.stop_gradient import FigStopGradient, terms
from songrank_paper.workers import Workers
from tests.songrank_paper.raw_files import movielens_20m, mslr


def made(experiment, plan, folder):
    found = results(run_cells([experiment], plan, Store(folder / "cells"), Workers()))
    return experiment.show(plan, found)


def test_every_experiment_goes_by_its_name():
    loaded = load_all()
    assert {"fig-functions", "table-stats", "fig-complexity", "fig-stop-gradient"} <= set(loaded)
    for name, experiment in loaded.items():
        assert experiment.name == name
        assert "\n" not in experiment.title
        assert load_experiment(name).title == experiment.title


# ---- functions


@pytest.mark.parametrize("tau", [0.1, 0.5, 2.0])
def test_smoothed_hinges_are_those_of_the_appendix(tau):
    x = torch.linspace(-3, 3, 61, dtype=torch.float64)
    phi = [tau * math.log1p(math.exp(value / tau)) for value in x.tolist()]
    kappa = [0 if v <= 0 else v * v / (2 * tau) if v <= tau else v - tau / 2 for v in x.tolist()]
    torch.testing.assert_close(smoothed_hinge(x, "softplus", tau), torch.tensor(phi, dtype=x.dtype))
    torch.testing.assert_close(smoothed_hinge(x, "hinge", tau), torch.tensor(kappa, dtype=x.dtype))


def test_functions_need_no_cells_and_say_how_far_they_are_from_the_hinge(tmp_path):
    found = made(FigFunctions(), Plan(), tmp_path)
    assert set(found.figures) == {"hinges", "selectors", "surrogates"}
    gaps = [row[1] for row in found.tables["gaps"].rows]
    assert gaps == pytest.approx([0.5 * math.log(2), 0.25])
    hinge, phi, kappa = (line.get_ydata() for line in found.figures["hinges"].axes[0].lines)
    assert (phi >= hinge).all()
    assert (kappa <= hinge).all()


# ---- statistics


def test_statistics_are_counts_of_the_files_with_the_papers_beside(tmp_path):
    given = {"movielens-20m": movielens_20m(tmp_path / "raw"), "mslr-web30k": mslr(tmp_path / "lists")}
    plan = Plan(quick=True, data=DataSets(given, tmp_path / "out", quick=True))
    tables = made(TableStats(), plan, tmp_path).tables
    row = dict(zip(tables["recommendation"].columns, tables["recommendation"].rows[0], strict=True))
    assert (row["data set"], row["used"]) == ("MovieLens20M", "as given")
    movies = {line.split(",")[1] for line in (tmp_path / "raw/ml-20m/ratings.csv").read_text().splitlines()[1:]}
    assert (row["users"], row["items"], row["interactions"]) == (25, len(movies), 200)
    assert row["sparsity"] == pytest.approx(1 - 200 / (25 * len(movies)))
    assert (row["users, paper"], row["interactions, paper"], row["sparsity, paper"]) == (138_493, 20_000_263, 0.9946)
    row = dict(zip(tables["search"].columns, tables["search"].rows[0], strict=True))
    lists = {}
    for file in (tmp_path / "lists").rglob("*.txt"):
        for line in file.read_text().splitlines():
            lists[line.split()[1]] = lists.get(line.split()[1], 0) + 1
    assert (row["queries"], row["query-document pairs"]) == (18, sum(lists.values()))
    assert (row["most a query"], row["fewest a query"]) == (max(lists.values()), min(lists.values()))
    assert (row["query-document pairs, paper"], row["most a query, paper"]) == (3_771_125, 1_245)
    row = dict(zip(tables["labelling"].columns, tables["labelling"].rows[0], strict=True))
    dataset = open_dataset(plan.data["eurlex-4k"])
    assert (row["used"], row["labels"]) == ("synthetic", 300)
    assert row["training texts"] + row["test texts"] == dataset.num_queries
    assert row["labels a text"] == pytest.approx(dataset.num_pairs / dataset.num_queries)
    assert (row["labels a text, paper"], row["texts a label, paper"]) == (5.31, 25.73)


def test_sets_of_the_paper_that_are_not_used_keep_their_place(tmp_path):
    plan = Plan(quick=True, data=DataSets({}, tmp_path, quick=True))
    tables = made(TableStats(), plan, tmp_path).tables
    for task, table in tables.items():
        used = {row[0]: row[1] for row in table.rows}
        known = [one for one in SETS.values() if one.task == task and not one.stands_for and one.shape is not None]
        assert list(used.values()) == ["synthetic", "no"]
        assert list(used) == [one.title for one in known]


# ---- complexity


@pytest.mark.parametrize("what", ["loss", "step"])
@pytest.mark.parametrize("loss", ["song", "k-song", "bce"])
def test_steps_of_every_kind_are_measured(tmp_path, loss, what):
    base = {"queries": 4, "irrelevant": 5, "items": 120}
    found = measure(tmp_path, loss, what, "irrelevant", [5, 10], base, 2, "cpu")
    assert found["points"] == [5, 10]
    assert all(0 < value < 1e4 for value in found["milliseconds"])


def test_exponents_are_those_of_the_curves_and_theory_stands_beside():
    experiment, plan, found = FigComplexity(), Plan(quick=True), {}
    powers = {"queries": 1.0, "irrelevant": 0.5, "items": 0.0}
    for cell in experiment.cells(plan, {}):
        points = cell.options["points"]
        taken = [3.0 * point ** powers[cell.options["size"]] for point in points]
        found[cell.key] = {"points": points, "milliseconds": taken}
    shown = experiment.show(plan, found)
    for row in shown.tables["exponents"].rows:
        expected = {"queries a step": (1.0, 1), "N_q, items of a list": (0.0, 0)}.get(row[2], (0.5, 1))
        assert (row[-2], row[-1]) == (pytest.approx(expected[0], abs=1e-9), expected[1])
    for figure in shown.figures.values():
        assert [axes.get_xscale() for axes in figure.axes] == ["log"] * 3


# ---- stop gradient


class Scores(torch.nn.Module):
    """A model whose weights are the scores themselves."""

    def __init__(self, scores):
        super().__init__()
        self.weight = torch.nn.Parameter(scores)


class Feed:
    def scores(self, model, slate):
        return model.weight[slate.query]


@pytest.mark.parametrize("selector", ["sigmoid", "smooth_step"])
def test_the_second_term_is_the_gradient_of_the_selection_through_the_threshold(selector):
    torch.manual_seed(3)
    queries, items, k, tau1 = 4, 15, 4, 0.3
    h = torch.randn(queries, items, dtype=torch.float64)
    label = torch.randint(0, 3, h.shape).double()
    label[:, 0] = 2.0
    slate = Slate.from_batch(label, torch.arange(queries), k=k)
    own = {"threshold": ThresholdOptions(tau1=tau1, tau2=1e-3), "form": PaperForm(centre="zero")}
    loss = KSONG(0, queries, k, 1.0, rank_offset=0.0, selector=selector, dtype=torch.float64, **own)
    memory = loss.gather(slate)
    threshold = smooth_threshold(h, loss.problem)
    loss.scatter(slate, {**memory, "threshold": threshold, "curvature": torch.ones_like(threshold)})

    beaten = torch.relu(h.unsqueeze(1) - h.unsqueeze(2) + 1.0).square().sum(-1)
    f = (1 - 2**label) / (slate.ideal_dcg.unsqueeze(1) * torch.log2(beaten + 1)) / queries

    def selected(scores):
        lead = scores - smooth_threshold(scores, loss.problem).unsqueeze(1)
        t = (2 * lead).clamp(0, 1)
        psi = torch.sigmoid(2 * lead) if selector == "sigmoid" else 3 * t**2 - 2 * t**3
        return (psi * f * (label > 0)).sum()

    slope = torch.zeros_like(h)
    for place in range(h.numel()):
        step = torch.zeros(h.numel(), dtype=h.dtype)
        step[place] = 1e-5
        step = step.view_as(h)
        slope.view(-1)[place] = (selected(h + step) - selected(h - step)) / 2e-5
    found = terms(loss, Scores(h), Feed(), [slate])
    assert found["second"] == pytest.approx(float(slope.norm()), rel=1e-4)
    assert found["second"] > 0.01
    assert -1 <= found["cosine"] <= 1


STAGE = ["warm_up.epochs=1", "fine_tuning={epochs: 4, learning_rate: 0.01}", "model={name: neumf, dim: 8, hidden: [8]}"]


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return prepare("synthetic", None, tmp_path_factory.mktemp("paper") / "set", queries=40, items=60, pairs=600).path


def trained(folder, small):
    folder.mkdir(exist_ok=True)
    changes = ["loss=k-song", "loss.k=5", "batch={queries: 10, relevant: 4, irrelevant: 10}", *STAGE]
    return stop_gradient.train(folder, "", "demo", changes, 2, str(small), "cpu")


def test_terms_are_measured_as_training_goes_and_the_same_after_a_stop(tmp_path, small, monkeypatch):
    whole = trained(tmp_path / "whole", small)
    assert list(whole["epochs"]) == ["1", "2", "4"]
    for measured in whole["epochs"].values():
        assert set(measured) == set(stop_gradient.KINDS)
        assert measured["used"]["first"] > 0
        assert measured["used"]["second"] > 0
    write, count = stop_gradient.write_whole, []

    def stopping(file, content):
        write(file, content)
        count.append(file)
        if len(count) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(stop_gradient, "write_whole", stopping)
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path / "stopped", small)
    assert trained(tmp_path / "stopped", small) == whole


def test_the_figure_shows_means_over_seeds(tmp_path, small):
    experiment, plan = FigStopGradient(), Plan(quick=True, data={"movielens-1m": small}, seeds=(0, 1))
    terms = {"first": 2.0, "second": 1.0, "cosine": 0.5}
    found = {}
    for cell, size in zip(experiment.cells(plan, {}), (1.0, 3.0), strict=True):
        measured = {kind: {**terms, "second": size} for kind in stop_gradient.KINDS}
        found[cell.key] = {"epochs": {"1": measured, "2": measured}}
    shown = experiment.show(plan, found)
    assert shown.tables["terms"].rows[0][1:] == [1, 2.0, 2.0, 1.0, 0.5]
    assert len(shown.figures["ratio"].axes[0].lines) == len(stop_gradient.KINDS)


def test_a_seed_that_diverged_is_said_and_left_out(tmp_path, small, monkeypatch):
    monkeypatch.setattr(
        "tests.songrank_paper.test_small_experiments.STAGE", [*STAGE[:1], STAGE[1].replace("0.01", "1.0e+20")]
    )
    lost = trained(tmp_path / "run", small)
    assert "not finite" in lost["diverged"]
    experiment, plan = FigStopGradient(), Plan(quick=True, data={"movielens-1m": small}, seeds=(0, 1))
    measured = {kind: {"first": 2.0, "second": 1.0, "cosine": 0.5} for kind in stop_gradient.KINDS}
    first, second = (cell.key for cell in experiment.cells(plan, {}))
    shown = experiment.show(plan, {first: lost, second: {"epochs": {"1": measured}}})
    assert shown.tables["terms"].rows[0][1:] == [1, 2.0, 1.0, 0.5, 0.5]
    assert "movielens-1m: theoretical K-SONG diverged with 1 of 2 seeds." in shown.remarks
    assert experiment.show(plan, {first: lost, second: lost}).remarks == [
        "movielens-1m: theoretical K-SONG diverged with 2 of 2 seeds."
    ]


def test_the_recipe_is_that_of_the_set_in_full_and_the_sets_bytes_are_in_the_key(small, tmp_path):
    experiment = FigStopGradient()
    full = experiment.cells(Plan(data={"movielens-1m": small}), {})[0]
    assert full.options["recipe"] == "movielens-1m"
    recipe = load_recipe("movielens-1m", full.options["changes"])
    stage = recipe.fine_tuning
    assert (recipe.loss["k"], stage.decay, stage.average) == (100, {90: 0.25}, None)
    assert (stage.learning_rate, stage.weight_decay, stage.item_decay_power) == (1e-3, 1e-6, 0.0)
    assert (recipe.loss["mode"], recipe.batch.relevant) == ("theoretical", 20)
    other = prepare("synthetic", None, tmp_path / "set", queries=40, items=60, pairs=600, seed=1).path
    assert experiment.cells(Plan(data={"movielens-1m": other}), {})[0].key != full.key
    assert experiment.cells(Plan(data={"movielens-1m": small}, device="cuda"), {})[0].key == full.key
