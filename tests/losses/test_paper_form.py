"""The switches between the losses as shipped and as printed: one word, in Python and in recipes, old and new."""

import pytest
import torch
import yaml

from songrank import KSONG, SONG, ListwiseCE
from songrank.analysis.evaluate import evaluate_run
from songrank.data import prepare
from songrank.losses import FasterForm, FasterKSONG, FasterSONG, PaperForm
from songrank.losses.paper_form import read_former_options
from songrank.training.config.recipe import Recipe
from songrank.training.run import Run
from tests.oracles.memory_losses import SongOracle
from tests.slates import sampled_slate

PRINTED = {"lagged": True, "estimator": "plain", "offset": 0.0}
TOP_K = {"implicit": "memory_before", "step": "gradient", "centred": "zero"}


def gradients(loss, oracle, k=None, steps=6):
    """G of both in each step of one course of scores."""
    for seed in range(steps):
        slate = sampled_slate(seed, k=k)
        generator = torch.Generator().manual_seed(seed)
        scores = torch.randn(slate.label.shape, generator=generator, dtype=torch.float64).requires_grad_()
        loss(scores, slate).backward()
        yield scores.grad, torch.tensor(oracle(scores.detach(), slate)[1], dtype=torch.float64)


@pytest.mark.parametrize("gamma", [0.1, 0.6])
def test_the_paper_form_of_song_is_algorithm_1_in_a_plain_loop(gamma):
    for found, expected in gradients(SONG(64, gamma, form="paper", dtype=torch.float64), SongOracle(gamma, **PRINTED)):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("mode", ["theoretical", "practical"])
def test_the_paper_form_of_k_song_is_algorithm_2_with_s_from_before_the_update(mode):
    loss = KSONG(64, 8, 3, 0.2, mode, form="paper", dtype=torch.float64)
    oracle = SongOracle(0.2, k=3, mode=mode, **PRINTED, **TOP_K)
    for found, expected in gradients(loss, oracle, k=3):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)
    queries = torch.tensor(sorted(oracle.s))
    expected = torch.tensor([oracle.s[int(query)] for query in queries], dtype=torch.float64)
    torch.testing.assert_close(loss.curvature.read(queries), expected, rtol=1e-9, atol=0)


def test_s_from_before_the_update_is_the_memory_that_the_step_before_left():
    """With γ′ = 1 the s after a visit is the slate's own H, and the s before it that of the visit before."""
    slate, scores = sampled_slate(0, k=3), torch.Generator().manual_seed(0)
    scores = [torch.randn(slate.label.shape, generator=scores, dtype=torch.float64) for _ in range(2)]
    found = {}
    for implicit in ("memory", "memory_before"):
        loss = KSONG(64, 8, 3, form=PaperForm(implicit=implicit), dtype=torch.float64)
        loss(scores[0], slate)
        last = scores[1].clone().requires_grad_()
        loss(last, slate).backward()
        found[implicit] = last.grad
    assert (found["memory"] - found["memory_before"]).abs().max() > 1e-6


def test_the_paper_form_sets_exactly_the_switches_of_each_loss():
    assert SONG(4, form="paper").form == PaperForm(lagged=True, estimator="plain", offset="zero")
    assert ListwiseCE(4, form="paper").form == PaperForm(estimator="plain")
    assert KSONG(4, 3, 2, form="paper").form == PaperForm.printed()
    assert FasterKSONG(4, 3, 2, 2, form="paper").form == FasterForm.printed()
    assert FasterSONG(4, 3, 2, form="paper").form.memory == "msvr"


def test_the_paper_form_has_no_rank_offset_unless_one_is_given():
    assert SONG(4, form="paper").rank_offset == 0.0
    assert SONG(4, form="paper", rank_offset=16.0).rank_offset == 16.0
    assert SONG(4).rank_offset is None


def recipe_of(**loss):
    return Recipe.read({"data": "data", "model": "neumf", "fine_tuning": {"epochs": 1}, "loss": loss}).loss


def test_a_recipe_says_the_paper_form_in_one_word_or_single_switches():
    assert recipe_of(name="k-song", k=3, form="paper")["form"] == "paper"
    found = recipe_of(name="faster-song", form={"memory": "msvr"})["form"]
    assert (found["memory"], found["earlier"], found["implicit"]) == ("msvr", "corrected", "memory")


FORMER = {
    "name": "k-song",
    "k": 3,
    "gamma": 0.1,
    "mode": "practical",
    "rank_offset": None,
    "surrogate": "squared_hinge",
    "margin": 1.0,
    "selector": "sigmoid",
    "selector_scale": 2.0,
    "form": "bilevel",
    "threshold_step": "newton",
    "threshold_rate": 0.3,
    "threshold_gamma": 0.3,
    "implicit": "slate",
    "epsilon": 0.5,
    "tau1": 0.1,
    "tau2": 0.0001,
    "smoothing": "softplus",
    "centre": "first",
    "lagged": False,
    "estimator": "strata",
}


def test_options_that_stood_by_themselves_are_read_as_the_form_and_the_threshold():
    assert recipe_of(**FORMER) == recipe_of(name="k-song", k=3, mode="practical")
    assert recipe_of(**{**FORMER, "form": "rank"})["form"]["selection"] == "rank"
    assert recipe_of(name="faster-song", memory="msvr", lagged=False)["form"]["memory"] == "msvr"
    assert read_former_options({"estimator": 1}, ["estimator"]) == {"estimator": 1}


def test_a_finished_run_of_the_former_layout_still_opens(tmp_path):
    dataset = prepare("synthetic", None, tmp_path / "data", queries=20, items=30, pairs=200)
    recipe = Recipe.read(
        {
            "data": str(dataset.path),
            "model": {"name": "neumf", "dim": 4},
            "batch": {"irrelevant": 9},
            "warm_up": {"epochs": 0},
            "loss": {"name": "k-song", "k": 3, "mode": "practical"},
            "fine_tuning": {"epochs": 1},
            "device": "cpu",
        }
    )
    Run.begin(recipe, tmp_path / "run").finish()
    before = evaluate_run(tmp_path / "run").values
    config = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    (tmp_path / "run" / "config.yaml").write_text(yaml.safe_dump({**config, "loss": FORMER}))
    assert evaluate_run(tmp_path / "run").values == before
