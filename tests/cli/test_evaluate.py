"""Evaluating a finished run again, under other policies, elsewhere, and when something is broken."""

import json

import pytest
from safetensors.torch import load_file

from songrank import models
from songrank.data import open_dataset
from songrank.metrics import evaluate_catalogue
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
        (lambda run: (run / "model.safetensors").unlink(), [], "model.safetensors: cannot be read"),
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
