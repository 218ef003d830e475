"""Evaluating a finished run again, under other policies, elsewhere, and when something is broken."""

import json

import pytest
import torch
from safetensors.torch import load_file

from songrank import models
from songrank.analysis.evaluate import evaluate_run
from songrank.data import open_dataset
from songrank.metrics import evaluate_catalogue
from songrank.serving import open_model
from songrank.serving.recommendations import score_users
from tests.cli.small_sets import recipe


@pytest.fixture
def run(songrank, tmp_path):
    words, path = recipe(tmp_path, "recommendation")
    assert songrank(*words).returncode == 0
    assert songrank("train", path, "-o", tmp_path / "run", "-q").returncode == 0
    return tmp_path / "run"


def test_any_metric_and_policy_as_the_library_computes_it(songrank, run, tmp_path):
    dataset = open_dataset(tmp_path / "data")
    model = models.create("neumf", num_queries=dataset.num_queries, num_items=dataset.num_items, dim=8, hidden=[8])
    model.load_state_dict(load_file(run / "model.safetensors"))
    wanted = {"metrics": ["recall@3", "ndcg"], "ties": "average", "empty": "zero", "gain": "linear"}
    expected = evaluate_catalogue(model.eval(), dataset.relevance("validation"), **wanted)
    words = ["--metric", "recall@3", "--metric", "ndcg", "--ties", "average", "--empty", "zero", "--gain", "linear"]
    found = songrank("evaluate", run, "--split", "validation", *words, "--json", "--device", "cpu")
    assert json.loads(found.stdout)["metrics"] == pytest.approx(expected.values)
    assert songrank("evaluate", run, "--split", "validation", *words).stdout == expected.describe("users") + "\n"


def test_sampled_figures_say_so_and_are_higher(songrank, run):
    sampled = songrank("evaluate", run, "--candidates", "5", "--metric", "mrr")
    assert "among 5 sampled candidates" in sampled.stdout
    everything = json.loads(songrank("evaluate", run, "--metric", "mrr", "--json").stdout)
    few = json.loads(songrank("evaluate", run, "--metric", "mrr", "--candidates", "5", "--json").stdout)
    assert few["metrics"]["mrr"] > everything["metrics"]["mrr"]
    assert (few["candidates"], everything["candidates"]) == (5, "all")


def test_data_that_was_moved_is_found_where_it_is_said_to_be(songrank, run, tmp_path):
    before = songrank("evaluate", run).stdout
    (tmp_path / "data").rename(tmp_path / "moved")
    assert songrank("evaluate", run).returncode == 2
    assert songrank("evaluate", run, "--data", tmp_path / "moved").stdout == before


@pytest.mark.parametrize(
    ("damage", "words", "message"),
    [
        (lambda run: None, ["--split", "tset"], "has no tset split; it has train, validation, test"),
        (lambda run: None, ["--metric", "nope"], "metric is 'nope'; expected one of dcg, ndcg"),
        (lambda run: None, ["--ties", "fair"], "ties is 'fair'; expected one of 'pessimistic', 'average', 'stable'"),
        (lambda run: None, ["--candidates", "0"], "candidates is 0; expected a whole number of at least 1"),
        (lambda run: (run / "model.json").unlink(), [], "has no model yet; finish it with `songrank train --resume"),
        (lambda run: (run / "model.json").write_text("{"), [], "model.json: is not valid JSON"),
        (lambda run: (run / "model.safetensors").unlink(), [], "model.safetensors: is missing"),
        (lambda run: (run / "model.safetensors").write_bytes(b"x"), [], "model.safetensors: checksum mismatch"),
        (lambda run: (run / "config.yaml").write_text("data: [x"), [], "config.yaml, line"),
        (lambda run: (run / "config.yaml").unlink(), [], "is not a run directory: it has no readable config.yaml"),
    ],
)
def test_what_is_wrong_is_one_line(songrank, run, damage, words, message):
    damage(run)
    done = songrank("evaluate", run, *words)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_lists_are_those_of_recommend_without_held_out_items(songrank, run, tmp_path):
    """Coverage, novelty and popularity by hand, from the scores of the model."""
    dataset = open_dataset(tmp_path / "data")
    folder = open_model(run)
    train, targets = dataset.relevance("train"), dataset.relevance("test")
    users = torch.bincount(train.item.long(), minlength=dataset.num_items)
    scores, lists = score_users(folder, torch.arange(dataset.num_queries)), []
    for user in range(dataset.num_queries):
        own = targets.item[targets.indptr[user] : targets.indptr[user + 1]].tolist()
        taken = set(targets.taken_item[targets.taken_indptr[user] : targets.taken_indptr[user + 1]].tolist()) - set(own)
        order = scores[user].argsort(descending=True).tolist()
        lists.append([item for item in order if item not in taken][:3])
    found = json.loads(songrank("evaluate", run, "--lists", "3", "--json", "--device", "cpu").stdout)["lists"]
    flat = [item for one in lists for item in one]
    assert found["coverage@3"] == pytest.approx(len(set(flat)) / dataset.num_items)
    active = int((train.num_relevant > 0).sum())
    assert found["novelty@3"] == pytest.approx(float(-torch.log2(users[flat].clamp_min(1) / active).mean()), rel=1e-5)
    text = songrank("evaluate", run, "--lists", "3", "--device", "cpu").stdout
    assert f"gini@3             {found['gini@3']:.6f}\n" in text


def test_a_comparison_has_the_figures_of_recommended_items(songrank, run):
    found = json.loads(songrank("evaluate", run, "--lists", "3", "--json").stdout)["lists"]
    (method,) = json.loads(songrank("compare", run, "--lists", "3", "--json").stdout)["methods"]
    assert method["lists"] == pytest.approx(found)
    for words in ([], ["--markdown"]):
        shown = songrank("compare", run, "--lists", "3", *words).stdout
        assert "popularity\\_lift@3" in shown if words else "popularity_lift@3" in shown
        assert f"{found['gini@3']:.4f}" in shown
    assert "gini" not in songrank("compare", run).stdout


def test_groups_are_means_of_the_users_in_them(songrank, run, tmp_path):
    dataset = open_dataset(tmp_path / "data")
    words = ["evaluate", run, "--metric", "mrr", "--device", "cpu", "--json"]
    values = evaluate_run(run, metrics=["mrr"], device="cpu").per_query["mrr"]
    sizes = dataset.relevance("train").num_relevant
    groups = json.loads(songrank(*words, "--by", "activity").stdout)["groups"]
    assert sum(group["users"] for group in groups) == dataset.num_queries
    ends = groups[0]["group"].removesuffix(" training items").split(" to ")
    low, high = int(ends[0]), int(ends[-1])
    inside = (sizes >= low) & (sizes <= high)
    assert groups[0]["metrics"]["mrr"]["mean"] == pytest.approx(float(values[inside].mean()))
    assert groups[0]["metrics"]["mrr"]["low"] < groups[0]["metrics"]["mrr"]["mean"]

    targets = dataset.relevance("test")  # one per user
    popularity = torch.bincount(dataset.relevance("train").item.long(), minlength=dataset.num_items)
    groups = json.loads(songrank(*words, "--by", "popularity").stdout)["groups"]
    assert sum(group["users"] for group in groups) == targets.num_pairs
    total = sum(group["users"] * group["metrics"]["mrr"]["mean"] for group in groups)
    assert total == pytest.approx(float(values.nansum()))
    cold = int((popularity[targets.item.long()] == 0).sum())
    assert [group["users"] for group in groups if group["group"].startswith("cold")] == ([cold] if cold else [])

    names = ["\x1b[31mevil", "calm"]
    rows = [f"{user},{names[place % 2]}" for place, user in enumerate(dataset.query_ids) if place > 1]
    (tmp_path / "segments.csv").write_text("\n".join(["user,segment", *rows, "nobody,other", ""]))
    groups = json.loads(songrank(*words, "--by", tmp_path / "segments.csv").stdout)["groups"]
    assert [group["group"] for group in groups] == ["\x1b[31mevil", "calm", "other", "users without a segment"]
    assert groups[1]["metrics"]["mrr"]["mean"] == pytest.approx(float(values[3::2].mean()))
    shown = songrank(*words[:-1], "--by", tmp_path / "segments.csv").stdout
    assert "\\x1b[31mevil" in shown
    assert "\x1b" not in shown
    (tmp_path / "segments.csv").write_text("user,a,b\n1,2,3\n")
    wrong = songrank(*words, "--by", tmp_path / "segments.csv")
    assert (wrong.returncode, "expected one column of segments" in wrong.stderr) == (2, True)
    assert "no such" not in wrong.stderr
    assert songrank(*words, "--by", tmp_path / "nowhere.csv").returncode == 2
