"""The figure of the gradient through the threshold."""

import pytest
import torch

from songrank import KSONG, Slate
from songrank.data import prepare
from songrank.functional import smooth_threshold
from songrank.losses.paper_form import PaperForm
from songrank.losses.top_k import ThresholdOptions
from songrank.training.config.recipe_files import load_recipe
from songrank_paper import stop_gradient
from songrank_paper.experiment import Plan
from songrank_paper.stop_gradient import FigStopGradient, terms


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
    return stop_gradient.train(folder, "", "quick", changes, 2, str(small), "cpu")


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
        "tests.songrank_paper.test_stop_gradient.STAGE", [*STAGE[:1], STAGE[1].replace("0.01", "1.0e+20")]
    )
    lost = trained(tmp_path / "run", small)
    assert "NaN or infinite" in lost["diverged"]
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
    assert (recipe.loss["k"], stage.decay, stage.ema_decay) == (100, {90: 0.25}, None)
    assert (stage.learning_rate, stage.weight_decay, stage.item_decay_power) == (1e-3, 1e-6, 0.0)
    assert (recipe.loss["mode"], recipe.batch.relevant) == ("theoretical", 20)
    other = prepare("synthetic", None, tmp_path / "set", queries=40, items=60, pairs=600, seed=1).path
    assert experiment.cells(Plan(data={"movielens-1m": other}), {})[0].key != full.key
    assert experiment.cells(Plan(data={"movielens-1m": small}, device="cuda"), {})[0].key == full.key
