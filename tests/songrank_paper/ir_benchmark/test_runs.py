"""The work of the benchmark's cells."""

import json

import pytest

from songrank.baselines import measure
from songrank.data import open_dataset
from songrank.training.run_directory import fingerprint
from songrank_paper.methods import Setting
from tests.songrank_paper.ir_benchmark.small import TINY, protocol
from tests.songrank_paper.small_training import done, users


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return users(tmp_path_factory.mktemp("data") / "users")


def pairs(dataset, split):
    part = dataset[split]
    return set(zip(part.pairs.row_of_entries().tolist(), part.item.tolist(), strict=True))


def test_joined_data_have_all_training_pairs_and_the_same_test(data, tmp_path):
    cell, before = protocol(data).joined, open_dataset(data)
    result = done(cell, tmp_path)
    joined = open_dataset(tmp_path / cell.key / "data")
    assert list(joined) == ["train", "test"]
    assert pairs(joined, "train") == pairs(before, "train") | pairs(before, "validation")
    assert joined["train"].num_pairs == before["train"].num_pairs + before["validation"].num_pairs
    assert pairs(joined, "test") == pairs(before, "test")
    assert (joined.num_queries, joined.num_items, joined.name) == (before.num_queries, before.num_items, before.name)
    assert list(joined.item_ids) == list(before.item_ids)
    assert result == {"data": fingerprint(joined)}


@pytest.mark.parametrize("backbone", ["mf", "lightgcn"])
def test_a_run_tells_its_best_epoch_and_what_an_epoch_takes(data, tmp_path, backbone):
    each = protocol(data, backbone, changes=(*TINY, "fine_tuning.epochs=4", "warm_up.epochs=3"))
    method = each.method("song")
    training = next(iter(each.tuning(method).values()))
    result = done(training.cell, tmp_path)
    lines = [json.loads(line) for line in (tmp_path / training.cell.key / "run/metrics.jsonl").read_text().splitlines()]
    last = [line for line in lines if line["stage"] == "fine-tuning"]
    best = max(last, key=lambda line: line["validation ndcg@20"])
    assert result["epochs"] == {"warm_up": 3, "fine_tuning": best["epoch"]}
    assert result["epoch"] == 3 + best["epoch"]
    assert set(result["metrics"]) == {"validation"}
    assert 0 < result["epoch_seconds"] < result["seconds"]
    assert not (tmp_path / training.cell.key / "run" / "checkpoints").exists()


def test_a_run_that_diverges_says_so(data, tmp_path):
    each = protocol(data, changes=(*TINY, "model.scoring=dot"))
    training = each._tried(Setting(("loss=bpr",), rate=1e30))
    assert "NaN or infinite" in done(training.cell, tmp_path)["diverged"]


def test_ease_is_chosen_on_validation_and_fitted_to_all_training_pairs(data, tmp_path):
    each = protocol(data)
    found = {each.joined.key: done(each.joined, tmp_path)}
    result = done(each.ease(found), tmp_path)
    tuned = measure("ease", open_dataset(data), "validation", select="ndcg@20", metrics="ndcg@20")
    assert result["regularisation"] == tuned.options["regularisation"]
    joined = open_dataset(tmp_path / each.joined.key / "data")
    whole = measure("ease", joined, metrics=["ndcg@20", "recall@20"], options=tuned.options)
    assert result["metrics"]["test"] == pytest.approx(whole.evaluation.values)
    assert whole.inputs == ("train",)
