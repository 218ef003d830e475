"""Blends of finished runs: their scores, every command on them, and what is rejected."""

import csv
import json
import re
import shutil

import numpy as np
import pytest
import torch

from songrank import Recommender
from songrank.analysis.blend import blend_runs
from songrank.core.errors import DataError, UserError
from songrank.data import open_dataset
from songrank.metrics import evaluate_catalogue, evaluate_lists
from songrank.models import Blend, Ensemble
from songrank.serving import open_model
from songrank.training.run_directory import RunDirectory
from tests.cli.small_sets import recipe

MODELS = {
    "factors": "{name: matrix-factorisation, dim: 8}",
    "sequence": "{name: sequence, dim: 8, heads: 2, blocks: 1, length: 5}",
    "history": "{name: history, dim: 8, length: 8}",
}
WEIGHTS = (0.5, 0.3, 0.2)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Three runs of different models on the same small data set."""
    import sys

    from songrank.cli import main

    folder = tmp_path_factory.mktemp("blend")

    def run(*words):
        before, sys.argv = sys.argv, ["songrank", *map(str, words)]
        try:
            with pytest.raises(SystemExit) as ended:
                main()
        finally:
            sys.argv = before
        assert ended.value.code == 0

    words, path = recipe(folder, "recommendation")
    run(*words)
    for name, model in MODELS.items():
        run("train", path, f"model={model}", "-o", folder / "runs" / name, "-q", "device=cpu")
    return folder


@pytest.fixture
def runs(place):
    return [place / "runs" / name for name in MODELS]


@pytest.fixture(scope="module")
def blended(place):
    blend_runs([place / "runs" / name for name in MODELS], place / "whole", weights=WEIGHTS, device="cpu")
    return place / "whole"


def histories(dataset, user, splits):
    """The items of a user in these splits, by time."""
    rows = []
    for split in splits:
        part = dataset[split]
        begin, end = part.offsets[user : user + 2].tolist()
        rows += zip(part.time[begin:end].tolist(), part.item[begin:end].tolist(), strict=True)
    return [item for _, item in sorted(rows)]


def z(scores):
    scores = scores.detach().double().numpy()
    return (scores - scores.mean(-1, keepdims=True)) / scores.std(-1, keepdims=True)


def by_hand(runs, dataset, splits):
    """Blended scores [users, items] from the members, one user at a time."""
    models, rows = [open_model(run).model for run in runs], []
    for user in range(dataset.num_queries):
        history = torch.tensor([histories(dataset, user, splits)])
        inputs = [torch.tensor([user]), history, history]
        parts = [z(model.score_all(query)) for model, query in zip(models, inputs, strict=True)]
        rows.append(sum(weight * part[0] for weight, part in zip(WEIGHTS, parts, strict=True)))
    return np.stack(rows)


def test_evaluation_recommendations_and_scores_are_those_of_the_members(songrank, runs, blended, place, tmp_path):
    dataset = open_dataset(place / "data")
    for split, before in (("validation", ["train"]), ("test", ["train", "validation"])):
        scores = torch.from_numpy(by_hand(runs, dataset, before))
        wanted = evaluate_catalogue(
            lambda query, s=scores: s[query], dataset.relevance(split), metrics=["ndcg@5", "mrr"]
        )
        told = json.loads((blended / "evaluation" / f"{split}.json").read_text())["metrics"]
        assert told == pytest.approx(wanted.values, rel=1e-5)
        again = json.loads(songrank("evaluate", blended, "--split", split, "--json", "--device", "cpu").stdout)
        assert again["metrics"] == pytest.approx(told)
    scores = by_hand(runs, dataset, ["train", "validation", "test"])
    assert songrank("recommend", blended, "-o", tmp_path / "best.csv", "-k", "3", "--device", "cpu").returncode == 0
    rows = list(csv.reader((tmp_path / "best.csv").open()))[1:]
    assert len(rows) == 3 * dataset.num_queries
    for user in range(dataset.num_queries):
        own = scores[user].copy()
        own[histories(dataset, user, dataset)] = -np.inf
        for place_of, row in enumerate(row for row in rows if row[0] == str(list(dataset.query_ids)[user])):
            item = list(dataset.item_ids).index(int(row[1]))
            assert own[item] == pytest.approx(np.sort(own)[::-1][place_of], abs=1e-4)
            assert float(row[2]) == pytest.approx(own[item], abs=1e-4)


def test_sampled_candidates_have_the_scores_of_the_catalogue(songrank, blended):
    some = songrank("evaluate", blended, "--candidates", "1000000", "--json", "--device", "cpu")
    whole = songrank("evaluate", blended, "--json", "--device", "cpu")
    assert json.loads(some.stdout)["metrics"] == pytest.approx(json.loads(whole.stdout)["metrics"])


def test_new_users_are_scored_without_the_members_that_need_ids(songrank, runs, blended, tmp_path):
    log = "user,item,time\n" + "".join(f"new,{movie},{time}\n" for time, movie in enumerate([4, 9, 33, 2, 17, 8]))
    (tmp_path / "log.csv").write_text(log)
    words = ["recommend", blended, "--histories", tmp_path / "log.csv", "-o", tmp_path / "best.csv", "--device", "cpu"]
    done = songrank(*words, "-k", "4")
    assert done.returncode == 0, done.stderr
    folder = open_model(blended)
    items = folder.item_ids.find([4, 9, 33, 2, 17, 8])
    sequence, history = (z(open_model(run).model.score_all(items.unsqueeze(0)))[0] for run in runs[1:])
    expected = 0.6 * sequence + 0.4 * history
    expected[items] = -np.inf
    rows = list(csv.reader((tmp_path / "best.csv").open()))[1:]
    assert [int(row[1]) for row in rows] == [list(folder.item_ids)[at] for at in np.argsort(-expected)[:4]]
    assert [float(row[2]) for row in rows] == pytest.approx(np.sort(expected)[::-1][:4], abs=1e-4)


def test_a_blend_of_ids_reads_no_histories(songrank, runs, place, tmp_path):
    done = songrank(
        "train", place / "recipe.yaml", "model=neumf", "-o", tmp_path / "neumf", "-q", "device=cpu", "loss=bce"
    )
    assert done.returncode == 0, done.stderr
    found = blend_runs([runs[0], tmp_path / "neumf"], tmp_path / "ids", weights=[0.5, 0.5], device="cpu")
    assert open_model(tmp_path / "ids").inputs == "ids"
    assert found.evaluation["test"].num_queries == 40
    (tmp_path / "log.csv").write_text("user,item\nnew,4\n")
    done = songrank("recommend", tmp_path / "ids", "--histories", tmp_path / "log.csv", "-o", tmp_path / "no.csv")
    assert done.returncode == 2
    assert "contains blend, which does not read histories; train with model=sequence" in done.stderr
    some = songrank("evaluate", tmp_path / "ids", "--candidates", "20", "--json", "--device", "cpu")
    assert some.returncode == 0
    told = json.loads(songrank("compare", tmp_path / "ids", runs[0], tmp_path / "neumf", "--json").stdout)
    labels = [method["label"] for method in told["methods"]]
    assert labels == ["blend of matrix-factorisation and neumf", "song", "bce"]


def test_a_blend_is_compared_reported_and_exported(songrank, runs, blended, tmp_path):
    told = json.loads(songrank("compare", blended, *runs, "--json").stdout)
    labels = [method["label"] for method in told["methods"]]
    assert labels[0] == "blend of matrix-factorisation, sequence and history"
    assert labels[1:] == ["matrix-factorisation song", "sequence song", "history song"]
    done = songrank("report", blended, *runs, "-o", tmp_path / "all.html", "--device", "cpu")
    assert done.returncode == 0, done.stderr
    assert songrank("report", blended, "-o", tmp_path / "one.html", "--device", "cpu").returncode == 0
    page = (tmp_path / "one.html").read_text()
    assert "blend of matrix-factorisation, sequence and history on" in page
    assert "Members of the blend" in page
    assert "a blend is not trained itself" in page
    data = json.loads(re.search(r'<script[^>]*id="songrank-data"[^>]*>(.*?)</script>', page, re.DOTALL)[1])
    assert len(data["methods"][0]["queries"]["best"]) > 0
    done = songrank("export", blended, "-o", tmp_path / "blend.pt2", "-q")
    assert done.returncode == 0, done.stderr
    loaded, folder = torch.export.load(tmp_path / "blend.pt2").module(), open_model(blended)
    query = folder.queries(torch.tensor([3, 0, 7]))
    torch.testing.assert_close(loaded(*query), folder.model.score_all(query), atol=1e-4, rtol=0)


def test_a_blend_is_exported_as_onnx(songrank, blended, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    done = songrank("export", blended, "-o", tmp_path / "blend.onnx")
    assert done.returncode == 0, done.stderr
    assert "input query int64 [B] and history int64 [B, T], output scores float32 [B, 60]" in done.stdout
    session, folder = onnxruntime.InferenceSession(str(tmp_path / "blend.onnx")), open_model(blended)
    query = folder.queries(torch.tensor([3, 0, 7]))
    (scores,) = session.run(["scores"], {"query": query.id.numpy(), "history": query.history.numpy()})
    np.testing.assert_allclose(scores, folder.model.score_all(query).detach(), atol=1e-4)


def test_weights_are_chosen_on_validation_and_recorded(songrank, runs, tmp_path):
    done = songrank("ensemble", *runs, "-o", tmp_path / "chosen", "--json", "--device", "cpu")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    section, alone = told["blend"], [member["alone"] for member in told["blend"]["members"]]
    assert section["metric"] == "ndcg@10"
    assert section["value"] >= max(alone)
    assert section["blend_minus_best_member"]["mean"] == pytest.approx(section["value"] - max(alone))
    measured = songrank("evaluate", tmp_path / "chosen", "--split", "validation", "--metric", "ndcg@10", "--json")
    assert json.loads(measured.stdout)["metrics"]["ndcg@10"] == pytest.approx(section["value"])
    for run, value in zip(runs, alone, strict=True):
        own = songrank("evaluate", run, "--split", "validation", "--metric", "ndcg@10", "--json")
        assert json.loads(own.stdout)["metrics"]["ndcg@10"] == pytest.approx(value)
    config = RunDirectory(tmp_path / "chosen").recipe()
    weights = [member["weight"] for member in section["members"]]
    assert sum(weights) == pytest.approx(1)
    assert [part.weight for part in config.blend.members] == [weight for weight in weights if weight]
    assert config.members == len(config.blend.members)
    printed = songrank("ensemble", *runs, "-o", tmp_path / "chosen", "--overwrite", "--device", "cpu").stdout
    assert "validation ndcg@10" in printed
    assert "(standard error)" in printed
    done = songrank("train", tmp_path / "chosen" / "config.yaml", "-o", tmp_path / "no")
    assert done.returncode == 2
    assert "only `songrank ensemble` creates such runs" in done.stderr
    config = (tmp_path / "chosen" / "config.yaml").read_text().replace("weight:", "wight:").rpartition("# sha256")[0]
    (tmp_path / "chosen" / "config.yaml").write_text(config)
    done = songrank("evaluate", tmp_path / "chosen")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1


def test_a_run_of_weight_0_is_left_out(runs, tmp_path):
    found = blend_runs(runs, tmp_path / "two", weights=[0.0, 0.75, 0.25], device="cpu")
    opened = open_model(tmp_path / "two")
    assert (opened.inputs, len(opened.model.members)) == ("histories", 2)
    assert found.weights == (0.0, 0.75, 0.25)
    assert len(found.choice.alone) == 3
    recipe = RunDirectory(tmp_path / "two").recipe()
    assert recipe.model["name"] == "sequence"
    assert recipe.blend.members[1].changes["model.name"] == "history"


def test_one_run_may_be_left(songrank, runs, tmp_path):
    blend_runs(runs, tmp_path / "one", weights=[0.0, 0.0, 1.0], device="cpu")
    found, own = (
        json.loads(songrank("evaluate", run, "--json").stdout)["metrics"] for run in (tmp_path / "one", runs[2])
    )
    assert found == pytest.approx(own)


def test_blends_of_several_seeds_are_one_method_unless_weights_are_given(songrank, runs, place, tmp_path):
    other = tmp_path / "other"
    words = ["train", place / "recipe.yaml", f"model={MODELS['history']}", "seed=1", "-o", other, "-q", "device=cpu"]
    assert songrank(*words).returncode == 0
    for name, own in (("first", [runs[2], runs[0]]), ("second", [other, runs[0]])):
        chosen = blend_runs(own, tmp_path / name, device="cpu")
        blend_runs(own, tmp_path / f"{name}-given", weights=[0.5, 0.5] if name == "first" else [0.6, 0.4], device="cpu")
    if min(chosen.weights) > 0:
        told = json.loads(songrank("compare", tmp_path / "first", tmp_path / "second", runs[1], "--json").stdout)
        assert [method["label"] for method in told["methods"]] == ["blend of history and matrix-factorisation", "song"]
    told = json.loads(songrank("compare", tmp_path / "first-given", tmp_path / "second-given", "--json").stdout)
    assert [method["label"].partition(" blend.")[2] for method in told["methods"]] == [
        "0.weight=0.5 blend.1.weight=0.5",
        "0.weight=0.6 blend.1.weight=0.4",
    ]


def test_an_ensemble_of_seeds_is_a_member(songrank, runs, place, tmp_path):
    other = tmp_path / "other"
    words = ["train", place / "recipe.yaml", f"model={MODELS['factors']}", "seed=1", "-o", other, "-q", "device=cpu"]
    assert songrank(*words).returncode == 0
    assert songrank("ensemble", runs[0], other, "-o", tmp_path / "pair", "--device", "cpu").returncode == 0
    assert open_model(tmp_path / "pair").info["members"] == 2
    blend_runs([tmp_path / "pair", runs[2]], tmp_path / "whole", weights=[0.4, 0.6], device="cpu")
    opened = open_model(tmp_path / "whole")
    assert isinstance(opened.model.members[0], Ensemble)
    query = opened.queries(torch.arange(5))
    parts = (
        z(open_model(tmp_path / "pair").model.score_all(query.id)),
        z(open_model(runs[2]).model.score_all(query.history)),
    )
    np.testing.assert_allclose(opened.model.score_all(query).detach(), 0.4 * parts[0] + 0.6 * parts[1], atol=1e-5)
    alone = blend_runs([runs[0], other], tmp_path / "seeds", weights=[0.5, 0.5], device="cpu")
    assert alone.choice.weights == (0.5, 0.5)
    assert isinstance(open_model(tmp_path / "seeds").model, Blend)


@pytest.mark.parametrize("task", ["search", "labelling"])
def test_lists_and_labels_are_blended(songrank, task, tmp_path):
    words, path = recipe(tmp_path, task)
    assert songrank(*words).returncode == 0
    second = "{name: mlp, hidden: [4]}" if task == "search" else "{name: label-mlp, hidden: []}"
    for name, more in (("one", []), ("two", [f"model={second}", "loss=softmax"])):
        done = songrank("train", path, *more, "-o", tmp_path / name, "-q", "device=cpu")
        assert done.returncode == 0, done.stderr
    runs, dataset = [tmp_path / "one", tmp_path / "two"], open_dataset(tmp_path / "data")
    found = blend_runs(runs, tmp_path / "whole", weights=[0.7, 0.3], device="cpu")
    part, models = dataset["test"], [open_model(run).model for run in runs]
    if task == "search":
        scores = []
        for begin, end in zip(part.offsets[:-1].tolist(), part.offsets[1:].tolist(), strict=True):
            rows, mask = part.features[begin:end][None].float(), torch.ones(1, end - begin, dtype=torch.bool)
            scores.append(0.7 * z(models[0](rows, mask))[0] + 0.3 * z(models[1](rows, mask))[0])
        scores = torch.from_numpy(np.concatenate(scores))
        wanted = evaluate_lists(scores, part.label, lengths=part.lengths, metrics=["ndcg@5", "mrr"])
    else:
        rows = part.features.dense(torch.arange(part.num_queries), part.num_features)
        scores = torch.from_numpy(0.7 * z(models[0].score_all(rows)) + 0.3 * z(models[1].score_all(rows)))
        wanted = evaluate_catalogue(lambda query: scores[query], dataset.relevance("test"), metrics=["ndcg@5", "mrr"])
    assert found.evaluation["test"].values == pytest.approx(wanted.values, rel=1e-5)
    chosen = blend_runs(runs, tmp_path / "chosen", metric="mrr", device="cpu")
    assert chosen.choice.value >= max(chosen.choice.alone)
    for command in (["evaluate", tmp_path / "whole"], ["report", tmp_path / "whole"]):
        assert songrank(*command).returncode == 0
    assert songrank("export", tmp_path / "whole", "-o", tmp_path / "whole.pt2", "-q").returncode == 0
    if task == "search":
        done = songrank("rank", tmp_path / "whole", tmp_path / "source" / "test.txt", "-o", tmp_path / "best.csv", "-q")
    else:
        done = songrank(
            "label", tmp_path / "whole", tmp_path / "source" / "test.txt", "-o", tmp_path / "best.csv", "-q"
        )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "best.csv").read_text().count("\n") > 10


def test_what_cannot_be_blended_is_said_in_one_line(songrank, runs, blended, tmp_path):
    shutil.copytree(runs[0], tmp_path / "copy")
    for words, message in [
        (
            [*runs, "--weights", "0.5,0.5"],
            "weights is [0.5, 0.5]; expected one number of at least 0 per member, 3 in all",
        ),
        ([*runs, "--weights", "a,b,c"], "--weights is 'a,b,c'; expected numbers separated by commas, such as 0.3,0.7"),
        ([*runs, "--metric", "auc"], "metric is 'auc'; expected one of dcg, ndcg"),
        ([runs[0], "--metric", "mrr"], "a blend needs at least two runs on the same data; got 1"),
        ([*runs, tmp_path / "copy"], f"{tmp_path / 'copy'}: has the same recipe and seed as {runs[0]}; expected runs"),
        ([*runs, blended], f"{blended}: is a blend; pass the runs that it combines"),
        ([*runs, "--device", "gpu"], "device is 'gpu'; expected auto, cpu, cuda or cuda:0"),
    ]:
        done = songrank("ensemble", *words, "-o", tmp_path / "no")
        assert done.returncode == 2
        assert message in done.stderr
        assert done.stderr.count("\n") == 1
        assert not (tmp_path / "no").exists()
    with pytest.raises(DataError, match="is one of the runs; choose another place with -o"):
        blend_runs(runs, runs[1], overwrite=True)
    with pytest.raises(UserError, match="already contains a run"):
        blend_runs(runs, blended)


def test_without_validation_weights_must_be_given(songrank, place, tmp_path):
    source = place / "source" / "ratings.dat"
    words = [
        "movielens-1m",
        source,
        "--split",
        "random",
        "--validation",
        "0",
        "--test",
        "0.2",
        "-o",
        tmp_path / "data",
        "-q",
    ]
    done = songrank("data", "prepare", *words)
    assert done.returncode == 0, done.stderr
    runs = []
    for name in ("factors", "history"):
        runs.append(tmp_path / name)
        more = [f"model={MODELS[name]}", f"data={tmp_path / 'data'}", "validation.every=0", "device=cpu"]
        assert songrank("train", place / "recipe.yaml", *more, "-o", runs[-1], "-q").returncode == 0
    with pytest.raises(DataError, match="has no validation split with relevant items; pass --weights, or prepare"):
        blend_runs(runs, tmp_path / "no")
    found = blend_runs(runs, tmp_path / "whole", weights=[0.5, 0.5], device="cpu")
    assert found.choice is None
    assert list(found.evaluation) == ["test"]


def test_models_of_other_ids_are_not_blended(songrank, runs, place, tmp_path):
    lines = (place / "source" / "ratings.dat").read_text().splitlines()
    (tmp_path / "other.dat").write_text("".join(f"{line.replace('::', '::9', 1)}\n" for line in lines))
    words = ["data", "prepare", "movielens-1m", tmp_path / "other.dat", "-o", tmp_path / "data", "-q"]
    assert songrank(*words).returncode == 0
    more = [f"model={MODELS['history']}", f"data={tmp_path / 'data'}", "device=cpu", "seed=3"]
    assert songrank("train", place / "recipe.yaml", *more, "-o", tmp_path / "other", "-q").returncode == 0
    with pytest.raises(DataError, match="is not the data set of"):
        blend_runs([runs[0], tmp_path / "other"], tmp_path / "no")
    (tmp_path / "other" / "run.json").unlink()
    with pytest.raises(DataError, match="task, input or ids differ from"):
        blend_runs([runs[0], tmp_path / "other"], tmp_path / "no", weights=[0.5, 0.5])


def test_runs_that_differ_in_seeds_are_averaged_as_before(songrank, runs, place, tmp_path):
    other = tmp_path / "other"
    words = ["train", place / "recipe.yaml", f"model={MODELS['factors']}", "seed=1", "-o", other, "-q", "device=cpu"]
    assert songrank(*words).returncode == 0
    assert songrank("ensemble", runs[0], other, "-o", tmp_path / "pair", "--device", "cpu").returncode == 0
    query, pair = torch.arange(5), open_model(tmp_path / "pair")
    one, two = (open_model(run).model.score_all(query) for run in (runs[0], other))
    assert torch.equal(pair.model.score_all(query), (one + two) / 2)
    assert "blend" not in json.dumps(pair.info)


def test_an_estimator_serves_a_blend(tmp_path):
    """As one that fits several models would."""
    rng = np.random.default_rng(0)
    table = {
        "user": [f"u{user}" for user in range(30) for _ in range(8)],
        "item": [int(item) for _ in range(30) for item in rng.permutation(20)[:8]],
    }
    made = []
    for name in ("matrix-factorisation", "history"):
        small = {"model": {"name": name, "dim": 4}, "epochs": 2, "verbose": 0, "device": "cpu"}
        made.append(Recommender(**small, folder=str(tmp_path / name), options={"warm_up.epochs": 1}).fit(table))
    runs = [tmp_path / name / "run" for name in ("matrix-factorisation", "history")]
    blend_runs(runs, tmp_path / "whole", weights=[0.5, 0.5], device="cpu")
    made[0].folder_ = open_model(tmp_path / "whole")
    made[0].recipe_ = RunDirectory(tmp_path / "whole").recipe()
    made[0].save(tmp_path / "saved")
    both = Recommender.load(tmp_path / "saved", device="cpu")
    assert both.recipe_ == made[0].recipe_
    found = both.recommend(["u3", "new"], k=3)
    assert list(found["source"]) == ["model"] * 3 + ["popular"] * 3
    query = both.folder_.queries(torch.tensor([0]))
    item = both.folder_.item_ids.find([5])
    (score,) = both.predict({"user": ["u0"], "item": [5]})
    assert score == pytest.approx(float(both.folder_.model.score_all(query).detach()[0, item]), abs=1e-5)
    new = {"user": ["a", "a", "b"], "item": [3, 7, 5]}
    both, alone = both.recommend_for(new, k=20), made[1].recommend_for(new, k=20)
    assert list(both["item"]) == list(alone["item"])  # only this member reads histories, and keeps its order
    with pytest.raises(UserError, match="members is 2; expected 1 for partial_fit"):
        made[0].partial_fit(new)
