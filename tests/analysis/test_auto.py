"""The automatic choice keeps what helps on validation, can be used early, stopped and resumed."""

import json

import pytest
import torch

from songrank.analysis import auto
from songrank.analysis.auto import AutoRun
from songrank.analysis.auto_parts import Part, default_budget, parts_for
from songrank.analysis.evaluate import evaluate_run
from songrank.core.errors import DataError, UserError
from songrank.data import open_dataset, prepare
from songrank.serving import recommend
from songrank.serving.open import open_model
from songrank.training.config.recipe_files import load_recipe

SMALL = ("model.dim=8", "batch.queries=16", "batch.irrelevant=20", "validation.every=2", "fine_tuning.epochs=10")
EASE = Part("ease", "ease")
FACTORS = Part("factors", "recommendation", SMALL, share=1.0)
HISTORY = Part("history", "histories", (*SMALL, "warm_up.epochs=2", "model.length=30", "batch.relevant=5"), share=0.5)
UNTRAINED = Part("untrained", "recommendation", (*SMALL, "fine_tuning.learning_rate=1e-20"), share=1.0)
DIVERGING = Part("diverging", "neumf", (*SMALL, "warm_up.learning_rate=1e29", "warm_up.epochs=4"), share=1.0)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    place = tmp_path_factory.mktemp("auto") / "set"
    return prepare("synthetic", None, place, queries=120, items=60, pairs=2400).path


@pytest.fixture
def chooses(monkeypatch, data, tmp_path):
    """Begin or resume a run that tries these parts."""

    def run(*parts, changes=("auto.budget=1000",), place="run", resume=False, **more):
        monkeypatch.setattr(auto, "parts_for", lambda dataset, device: parts)
        if resume:
            return AutoRun.resume(tmp_path / place, **more)
        return AutoRun.begin(load_recipe("auto", [f"data={data}", *changes]), tmp_path / place, **more)

    return run


def validation(run, name):
    return json.loads((run.directory.path / name / "evaluation" / "validation.json").read_text())["metrics"]["ndcg@10"]


def test_the_result_is_at_least_as_good_as_each_part_on_validation(chooses):
    said = []
    run = chooses(EASE, HISTORY, FACTORS, say=said.append)
    assert run.finish()
    found = run.results["validation"].values["ndcg@10"]
    assert found == pytest.approx(run.best_value)
    assert found >= validation(run, "parts/ease")
    assert [line.split(":")[0] for line in said[:3]] == ["ease", "history", "factors"]
    assert said[3].startswith(f"validation ndcg@10: {found:.4f}, beside popularity ")
    kept = {one.name for one in run.tried if one.kept}
    assert "ease" in kept
    assert {part.split()[1] for part in _weights(run.tried)} <= kept
    for split in ("validation", "test"):
        again = evaluate_run(run.directory.path, split)
        assert again.values == run.results[split].values


def _weights(tried):
    last = [one for one in tried if one.kept][-1].note
    return last.partition("weights ")[2].split(", ") if "weights " in last else []


def test_a_model_that_does_not_help_is_left_out(chooses):
    run = chooses(EASE, UNTRAINED)
    run.finish()
    assert [one.kept for one in run.tried] == [True, False]
    assert run.recipe.blend is None
    own, alone = run.directory.path, run.directory.path / "parts" / "ease"
    assert (own / "model.safetensors").read_bytes() == (alone / "model.safetensors").read_bytes()


@pytest.mark.parametrize("later", [0.0, -1.0])
def test_models_of_ids_must_help_with_new_items_too(later, chooses, monkeypatch):
    def extrapolated(folder, *given):
        values = torch.arange(50) / 1000
        return (
            values
            + later * (folder.info["model"]["name"] == "blend")
            + 0.1 * (later == 0 and folder.inputs != "histories")
        )

    monkeypatch.setattr(auto, "with_new_items", extrapolated)
    poor = Part("ease", "ease", ("model.neighbours=1", "model.regularisation=0.001"))
    longer = Part("factors", "recommendation", (*SMALL, "fine_tuning.epochs=40"), share=1.0)
    run = chooses(poor, longer, HISTORY)
    run.finish()
    assert run.tried[1].kept == (later == 0)
    assert f", with new items {0.1 if later == 0 else later:+.4f} ± 0.0000" in run.tried[1].note
    with_factors = json.loads((run.directory.path / "parts" / "with-history" / "run.json").read_text())["runs"]
    assert len(with_factors) == (3 if later == 0 else 2)


def test_the_first_model_answers_while_the_next_is_trained(chooses):
    answers = []

    def observe(line):
        if line["part"] == "factors":
            folder = open_model(run.directory.path)
            answers.append(next(iter(recommend(folder, None, 3))).num_users)

    run = chooses(EASE, FACTORS, observe=observe)
    run.finish()
    assert answers == [120] * 10


def test_a_stopped_run_resumes_to_the_same_model(chooses):
    whole = chooses(EASE, HISTORY, FACTORS, place="whole")
    whole.finish()

    def tick():
        ticks.append(1)
        if len(ticks) == 60:  # within the history model
            first.stop()

    ticks = []
    first = chooses(EASE, HISTORY, FACTORS, tick=tick)
    assert not first.finish()
    assert json.loads((first.directory.path / "run.json").read_text())["status"] == "stopped"
    second = chooses(EASE, HISTORY, FACTORS, resume=True)
    assert second.finish()
    assert [vars(one) | {"seconds": 0} for one in second.tried] == [vars(one) | {"seconds": 0} for one in whole.tried]
    one, other = (open_model(run.directory.path).model.state_dict() for run in (whole, second))
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_model_whose_training_fails_is_reported_and_left_out(chooses):
    said = []
    run = chooses(EASE, DIVERGING, say=said.append)
    assert run.finish()
    assert said[1].startswith("diverging: failed (")
    assert "NaN or infinite" in said[1]
    assert run.best_value == validation(run, "parts/ease")


def test_if_all_models_fail_the_error_is_raised(chooses):
    with pytest.raises(UserError, match="NaN or infinite"):
        chooses(DIVERGING).finish()


def test_what_the_budget_does_not_allow_is_not_tried(chooses):
    said = []
    run = chooses(EASE, FACTORS, changes=["auto.budget=1e-6"], say=said.append)
    assert run.finish()
    assert said[1] == "factors: not tried, since the budget of 0 s is spent"
    assert [one.name for one in run.tried] == ["ease"]


def test_what_is_smaller_on_a_cpu_and_what_the_limit_ended_are_reported(chooses):
    said = []
    endless = (*SMALL, "fine_tuning.epochs=100000", "validation.patience=null", "validation.every=1000000")
    part = Part("factors", "recommendation", endless, share=1.0, note="smaller, see below")
    chooses(EASE, part, changes=["auto.budget=5"], say=said.append).finish()
    assert said[1] == "factors: smaller, see below"
    assert " s (its time limit); " in said[2]


def test_it_warns_if_the_result_is_below_a_baseline(chooses):
    said, warned = [], []
    run = chooses(UNTRAINED, say=said.append, warn=warned.append)
    run.finish()
    assert said[-1].startswith("validation ndcg@10: ")
    assert " beside popularity " in said[-1]
    assert " and EASE " in said[-1]
    assert warned[-1].startswith("the model is below popularity and EASE on validation: ndcg@10 -")


def test_a_limit_ends_a_model_in_time(chooses, monkeypatch):
    """Each part has its share of what is left of the budget."""
    limits = {}
    begin = auto.Run.begin
    monkeypatch.setattr(
        auto.Run,
        "begin",
        lambda recipe, place, **more: limits.update({place.name: more.get("limit")}) or begin(recipe, place, **more),
    )
    run = chooses(EASE, HISTORY, FACTORS, changes=["auto.budget=500"])
    run.finish()
    spent = {one.name: one.seconds for one in run.tried}
    assert limits["ease"] is None
    assert limits["history"] == pytest.approx(0.5 * (500 - spent["ease"]))
    assert limits["factors"] == pytest.approx(500 - spent["ease"] - spent["history"])


def test_it_takes_the_common_keys_of_recipes(chooses):
    changes = ["auto.budget=1000", "seed=7", "validation.metric=recall@5", "evaluation.metrics=[mrr]"]
    run = chooses(EASE, FACTORS, changes=changes)
    run.finish()
    assert set(run.results["test"].values) == {"recall@5", "mrr"}
    recipe = load_recipe(str(run.directory.path / "parts" / "factors"))
    assert (recipe.seed, recipe.validation.metric) == (7, "recall@5")


@pytest.mark.parametrize("change", ["model=neumf", "fine_tuning.epochs=3", "loss=bce", "batch.queries=32"])
def test_keys_that_it_decides_itself_are_refused(change, chooses, data, tmp_path):
    more = ["warm_up.epochs=1"] if change == "model=neumf" else []
    with pytest.raises(UserError, match=r"was changed; auto chooses models|expected 0|expected none"):
        chooses(EASE, changes=[change, *more])
    assert not (tmp_path / "run").exists()


def test_the_parts_suit_the_data(data, tmp_path):
    dataset, cpu = open_dataset(data), torch.device("cpu")
    assert [part.name for part in parts_for(dataset, cpu)] == ["ease", "factors", "sequence"]
    assert [bool(part.note) for part in parts_for(dataset, cpu)] == [False, False, True]
    assert not any(part.note for part in parts_for(dataset, torch.device("cuda")))
    assert default_budget(dataset) == 15 + 5e-4 * dataset["train"].label.numel()
    table = {
        "user": [u for u in range(20) for _ in range(8)],
        "item": [(3 * u + i) % 30 for u in range(20) for i in range(8)],
    }
    random = prepare("interactions", table, tmp_path / "random", split="random")
    assert [part.name for part in parts_for(random, cpu)] == ["ease", "factors"]
    alone = prepare("interactions", table, tmp_path / "none", split="none")
    assert [part.name for part in parts_for(alone, cpu)] == ["ease"]
    labels = prepare("synthetic", None, tmp_path / "labels", task="labelling", queries=20, items=10, pairs=60)
    with pytest.raises(DataError, match="use the recipe labelling"):
        parts_for(labels, cpu)
