"""The memory's truth against plain loops in float64 over whole lists, from the weights that the memory belongs to."""

import math
import shutil

import pytest
import torch
from scipy import stats

from songrank.analysis.report.remembered import PAIRS, Remembered, compare_memory, read_memory, spearman
from songrank.core.errors import UserError
from songrank.training.checkpoints import Checkpoints
from songrank.training.run import Run
from tests.analysis.report.small_runs import train


def scores_of(model, dataset, query):
    """Scores of the whole training list of a query, in the order of the data, and its labels."""
    part = dataset["train"]
    begin, end = int(part.offsets[query]), int(part.offsets[query + 1])
    if dataset.form == "list":
        features = part.features[begin:end].float()[None]
        found = model(features, torch.ones(features.shape[:2], dtype=torch.bool))[0]
        return found.double().tolist(), dict(enumerate(part.label[begin:end].tolist()))
    describe = torch.tensor([query])
    describe = describe if part.features is None else part.features.dense(describe, part.num_features)
    labels = dict(zip(part.item[begin:end].tolist(), part.label[begin:end].tolist(), strict=True))
    return model.score_all(describe)[0].double().tolist(), labels


def last_state(run):
    kept = run.trainer.checkpoints
    return Checkpoints(run.directory.checkpoints, owner=kept.owner).latest()[1]


@torch.no_grad()
def loops(run, terms):
    """[(remembered, exact)] of every visited pair, from the last checkpoint; ``terms(x)`` of a difference of scores."""
    state = last_state(run)
    run.trainer.model.load_state_dict(state["model"])
    model, dataset = run.trainer.model.eval(), run.dataset
    held = next(value for name, value in state["losses"][-1].items() if name in ("u.values", "log_u.values"))
    pairs, row = [], 0
    for query in range(dataset["train"].num_queries):
        scores, labels = scores_of(model, dataset, query)
        for item in sorted(item for item, label in labels.items() if label > 0):
            exact = sum(terms(rival - scores[item]) for rival in scores) / len(scores)
            pairs.append((float(held[row]), exact))
            row += 1
    assert row == held.shape[0]
    return [(remembered, exact) for remembered, exact in pairs if remembered > -1e30]


@pytest.mark.parametrize(
    ("task", "terms", "form"),
    [
        ("recommendation", lambda x: max(0.0, x + 1.0) ** 2, float),
        ("search", lambda x: max(0.0, x + 1.0) ** 2, float),
        ("labelling", math.exp, math.log),
    ],
)
def test_exact_values_are_those_of_plain_loops_over_whole_lists(finished, task, terms, form):
    run = Run.resume(finished[task].directory.path)
    loss, step, (table, *_) = read_memory(run)
    assert loss == run.recipe.loss["name"]
    assert step == run.directory.notes()["step"]
    assert run.trainer.adapter.relevance.max_relevant <= PAIRS  # so that the sample holds every pair
    found = sorted(zip(table.remembered, table.exact, strict=True))
    expected = sorted((held, form(exact)) for held, exact in loops(run, terms))
    assert [held for held, _ in found] == [held for held, _ in expected]
    assert [exact for _, exact in found] == pytest.approx([exact for _, exact in expected], rel=1e-4, abs=1e-5)
    assert len(found) + table.unvisited == run.trainer.adapter.relevance.num_pairs


def test_thresholds_are_compared_with_the_next_score_after_the_first_k(finished):
    run = Run.resume(finished["search"].directory.path)
    _, _, (_, table) = read_memory(run)
    state, k = last_state(run), run.recipe.loss["k"]
    run.trainer.model.load_state_dict(state["model"])
    held = state["losses"][-1]["threshold.values"]
    expected = []
    with torch.no_grad():
        for query in range(run.dataset["train"].num_queries):
            scores, labels = scores_of(run.trainer.model.eval(), run.dataset, query)
            if len(scores) > k and any(label > 0 for label in labels.values()):
                expected.append((float(held[query]), sorted(scores, reverse=True)[k]))
    assert list(zip(table.remembered, table.exact, strict=True)) == [
        (pytest.approx(a), pytest.approx(b, rel=1e-4, abs=1e-5)) for a, b in expected
    ]
    assert table.titles.name == "λ"
    assert not table.titles.is_log


def test_the_weights_are_the_last_ones_not_the_best(finished):
    run = Run.resume(finished["recommendation"].directory.path)
    _, _, (before, *_) = read_memory(run)
    state = last_state(run)
    assert any(not torch.equal(value, state["best"][name]) for name, value in state["model"].items())
    run.trainer.model.load_state_dict(state["best"])
    assert read_memory(run)[2][0] == before
    assert all(
        torch.equal(value, last_state(run)["model"][name]) for name, value in run.trainer.model.state_dict().items()
    )


def test_the_folder_is_left_as_it_was_and_a_damaged_checkpoint_is_named(finished, tmp_path):
    folder = shutil.copytree(finished["recommendation"].directory.path, tmp_path / "run")
    run = Run.resume(folder)
    _, last = run.trainer.checkpoints.steps()
    (folder / "checkpoints" / f"step-{last:09d}" / "tensors.safetensors").write_bytes(b"x")
    before = sorted(folder.rglob("*"))
    with pytest.raises(UserError, match=f"step-{last:09d}: is damaged"):
        read_memory(run)
    assert sorted(folder.rglob("*")) == before
    shutil.rmtree(folder / "checkpoints")
    with pytest.raises(UserError, match="the checkpoint with the memory was deleted"):
        read_memory(run)


def test_a_loss_without_memory_says_so(compared):
    with pytest.raises(UserError, match="the loss lambdarank has no memory"):
        read_memory(Run.resume(compared / "lambdarank-0"))


def test_a_run_that_ends_with_its_warm_up_shows_the_memory_of_that(tmp_path):
    run = train(tmp_path, "recommendation", "fine_tuning.epochs=0")
    loss, _, (table,) = read_memory(Run.resume(run.directory.path))
    assert (loss, table.table) == ("listwise-ce", "log_u")


def test_memory_of_whole_lists_with_gamma_one_and_no_step_is_exact(tmp_path):
    quiet = ["fine_tuning.learning_rate=1e-30", "warm_up.epochs=0", "model.dropout=0", "loss.gamma=1.0"]
    run = train(tmp_path, "search", "loss=song", *quiet)
    _, _, (table,) = read_memory(Run.resume(run.directory.path))
    assert table.figures()["90th percentile of the relative error"] < 1e-5
    assert table.figures()["Spearman correlation"] > 0.999


def test_figures_are_those_of_scipy():
    rng = torch.Generator().manual_seed(0)
    held, exact = (torch.rand(50, generator=rng).mul(20).round().div(10).add(0.1).double() for _ in range(2))
    assert spearman(torch.tensor([1.0, 2.0, 9.0]), torch.tensor([0.1, 0.5, 0.3])) == pytest.approx(0.5)
    assert spearman(held, exact) == pytest.approx(stats.spearmanr(held, exact).statistic)
    figures = Remembered("u", tuple(held.tolist()), tuple(exact.tolist()), 0).figures()
    errors = [abs(a - b) / b for a, b in zip(held.tolist(), exact.tolist(), strict=True)]
    assert figures["median relative error"] == pytest.approx(sorted(errors)[24] / 2 + sorted(errors)[25] / 2)
    assert Remembered("u", (), (), 3).figures() == {}


def test_the_sample_is_bounded_and_always_the_same(finished):
    run = Run.resume(finished["recommendation"].directory.path)
    read_memory(run)
    loss, model, adapter = run.trainer.stages[-1].loss, run.trainer.model, run.trainer.adapter
    (some,) = compare_memory(loss, model, adapter, queries=3)
    assert len(some.exact) + some.unvisited <= 3 * PAIRS
    assert some == compare_memory(loss, model, adapter, queries=3)[0]
