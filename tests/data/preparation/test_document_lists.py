"""Rows become whole lists, in splits that tell each other nothing."""

import random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from songrank import SlateSampler
from songrank.data import DataError
from songrank.data.preparation.document_lists import ListOptions
from songrank.data.preparation.feature_transform import FeatureTransform
from tests.data.preparation.prepared import letor_line, lists_of, prepare_in, some_lists, text_of, written

LEARNED = {"standardise": True, "log_features": "auto", "missing": "mean", "missing_flags": True}


@pytest.fixture
def folder(tmp_path):
    """Training, validation and test files."""
    for name, seed, queries, start in (("train", 0, 30, 0), ("vali", 1, 10, 100), ("test", 2, 12, 200)):
        (tmp_path / f"{name}.txt").write_text(text_of(some_lists(seed, queries, start=start)))
    return tmp_path


def test_rows_of_a_query_need_not_stand_together(tmp_path):
    rows = [(0, 10, 1), (1, 9, 2), (2, 10, 3), (0, 9, 4), (1, 10, 5)]
    (tmp_path / "a.txt").write_text("".join(letor_line(label, query, [value]) for label, query, value in rows))
    dataset = prepare_in(tmp_path, "letor", tmp_path / "a.txt", validation=0, test=0)
    assert list(dataset) == ["train"]
    assert lists_of(dataset, "train") == {9: ([1, 0], [[2], [4]]), 10: ([0, 2, 1], [[1], [3], [5]])}
    assert list(dataset.split_query_ids("train")) == [9, 10]  # as numbers, not as texts


def test_text_ids_are_sorted_by_their_bytes(tmp_path):
    queries = ["b", "ä", "a", "10", "9", "Z"]
    (tmp_path / "a.txt").write_text("".join(letor_line(1, query, [at]) for at, query in enumerate(queries)), "utf-8")
    dataset = prepare_in(tmp_path, "letor", tmp_path / "a.txt", validation=0, test=0)
    assert list(dataset.split_query_ids("train")) == ["10", "9", "Z", "a", "b", "ä"]
    assert dataset["train"].features.flatten().tolist() == [3, 4, 5, 2, 0, 1]


@pytest.mark.parametrize("block_bytes", [40, 1 << 20])
def test_ids_that_are_whole_numbers_in_some_blocks_only_are_texts(tmp_path, block_bytes):
    queries = ["7", "12", "x", "7", "007"]
    (tmp_path / "a.txt").write_text("".join(letor_line(1, query, [at]) for at, query in enumerate(queries)))
    dataset = prepare_in(tmp_path, "letor", tmp_path / "a.txt", block_bytes=block_bytes, validation=0, test=0)
    assert list(dataset.split_query_ids("train")) == ["007", "12", "7", "x"]
    assert dataset["train"].features.flatten().tolist() == [4, 1, 0, 3, 2]


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 1000), queries=st.integers(3, 9))
def test_the_order_of_queries_in_the_file_does_not_matter(seed, queries, tmp_path_factory):
    folder = tmp_path_factory.mktemp("shuffled")
    lists = {query: [(label + 1, row) for label, row in rows] for query, rows in some_lists(seed, queries).items()}
    shuffled = dict(random.Random(seed).sample(list(lists.items()), queries))
    found = []
    for name, content in (("a.txt", lists), ("b.txt", shuffled)):
        (folder / name).write_text(text_of(content))
        found.append(written(prepare_in(folder, "letor", folder / name, **LEARNED)))
    assert found[0] == found[1]


def test_the_same_twice(folder):
    datasets = [prepare_in(folder, "letor", folder, dtype="float16", log_features="all") for _ in range(2)]
    assert written(datasets[0], without=()) == written(datasets[1], without=())


@pytest.mark.parametrize("block_bytes", [1, 100, 1000])
def test_blocks_of_any_size_give_the_same_bytes(folder, block_bytes):
    whole = prepare_in(folder, "letor", folder, **LEARNED)
    blocks = prepare_in(folder, "letor", folder, block_bytes=block_bytes, **LEARNED)
    assert written(whole, without=()) == written(blocks, without=())


def test_chunks_of_any_size_give_the_same_features(folder, monkeypatch):
    whole = prepare_in(folder, "letor", folder, log_features="all", missing="min")
    monkeypatch.setattr("songrank.data.preparation.feature_store.CHUNK_BYTES", 30)
    chunks = prepare_in(folder, "letor", folder, log_features="all", missing="min")
    assert written(whole) == written(chunks)


@pytest.mark.parametrize("options", [LEARNED, {"standardise": True, "log_features": "all", "missing": "min"}])
@pytest.mark.parametrize("validation", [None, 0.2])
def test_training_does_not_depend_on_what_is_held_out(folder, options, validation):
    if validation is not None:
        (folder / "vali.txt").unlink()
    before = prepare_in(folder, "letor", folder, validation=validation, **options)
    for name, start in (("vali.txt", 100), ("test.txt", 200)):
        if (folder / name).exists():
            garbage = {
                query: [(4, row * 1e6 - 9) for _, row in rows]
                for query, rows in some_lists(9, 40, missing=0.5, start=start).items()
            }
            (folder / name).write_text(text_of(garbage))
    after = prepare_in(folder, "letor", folder, validation=validation, **options)
    assert before.info["transform"] == after.info["transform"]
    assert (before.path / "train.safetensors").read_bytes() == (after.path / "train.safetensors").read_bytes()
    assert (before.path / "test.safetensors").read_bytes() != (after.path / "test.safetensors").read_bytes()


def test_how_ids_of_other_splits_are_written_does_not_change_what_is_carved_out(folder):
    (folder / "vali.txt").unlink()
    found = []
    for test in ("200", "x", "0200"):
        (folder / "test.txt").write_text(letor_line(1, test, [1, 2, 3]))
        dataset = prepare_in(folder, "letor", folder, validation=0.3)
        found.append(sorted(map(int, dataset.split_query_ids("validation"))))
    assert found[0] == found[1] == found[2]
    assert len(found[0]) == 9


@pytest.mark.parametrize("features", [1, 3])
def test_what_is_learned_does_not_depend_on_the_width_of_other_splits(tmp_path, features, monkeypatch):
    monkeypatch.setattr("songrank.data.preparation.feature_store.CHUNK_BYTES", 1000)
    (tmp_path / "train.txt").write_text(text_of(some_lists(0, 500, features)))
    found = []
    for width in (1, 40):
        (tmp_path / "test.txt").write_text(f"1 qid:1000 {width}:1\n")
        transform = prepare_in(tmp_path, "letor", tmp_path, **LEARNED).info["transform"]
        found.append([transform[key][:features] for key in ("mean", "scale", "missing")])
    assert found[0] == found[1]


def test_a_random_split_learns_from_its_training_part_alone(tmp_path):
    lists = some_lists(3, 40, missing=0)
    (tmp_path / "a.txt").write_text(text_of(lists))
    plain = prepare_in(tmp_path, "letor", tmp_path / "a.txt", split="random", seed=5)
    scaled = prepare_in(tmp_path, "letor", tmp_path / "a.txt", split="random", seed=5, standardise=True)
    assert [plain[name].num_queries for name in plain] == [32, 4, 4]
    train = plain["train"].features.double()
    assert scaled.info["transform"]["mean"] == pytest.approx(train.mean(0).tolist(), rel=1e-12)
    assert scaled.info["transform"]["scale"] == pytest.approx(train.std(0, correction=0).tolist(), rel=1e-12)
    test = (plain["test"].features.double() - train.mean(0)) / train.std(0, correction=0)
    torch.testing.assert_close(scaled["test"].features, test.float())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"truncate": 2}, "option truncate is 2; expected greater than or equal to 3"),
        ({"split": "time"}, "option split is 'time'; expected 'given' or 'random'"),
        ({"dtype": "float64"}, "option dtype is 'float64'; expected 'float32' or 'float16'"),
        ({"missing": "median"}, "option missing is 'median'"),
        ({"log_features": "some"}, "option log_features is 'some'"),
        ({"validation": 1}, "option validation is 1"),
        ({"seed": -1}, "option seed is -1"),
        ({"standardize": True}, "^unknown option 'standardize' for letor; did you mean 'standardise'?"),
        ({"wavelet": True}, "^unknown option 'wavelet' for letor; expected one of dtype, log_features"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(DataError, match=message):
        ListOptions.read("letor", options)


def test_truncation_is_written_down_and_lists_stay_whole(folder):
    whole, cut = (prepare_in(folder, "letor", folder, truncate=length) for length in (None, 4))
    assert whole.info["training"] == {"list_size": None}
    assert cut.info["training"] == {"list_size": 4}
    assert written(whole)[0] == written(cut)[0]
    sampler = SlateSampler(cut.relevance("train"), length=cut.info["training"]["list_size"])
    assert all(slate.label.shape[1] == 4 for slate in sampler)


def test_what_was_transformed_can_be_done_to_new_documents(folder):
    plain, learned = prepare_in(folder, "letor", folder), prepare_in(folder, "letor", folder, **LEARNED)
    transform = FeatureTransform.from_json(learned.info["transform"])
    assert len(learned.info["transform"]["log"]) > 0
    train = some_lists(0, 30)
    rows = np.stack([row for rows in train.values() for _, row in rows])
    assert transform.apply(rows).tobytes() == learned["train"].features.numpy().tobytes()
    assert np.nan_to_num(rows).tobytes() == plain["train"].features.numpy().tobytes()
    missing = sum((folder / f"{name}.txt").read_text().count("NULL") for name in ("train", "vali", "test"))
    assert learned.info["made"]["left_out"] == {"missing values replaced": missing}


def test_features_are_as_many_as_the_largest_number_in_any_split(tmp_path):
    (tmp_path / "train.txt").write_text("1 qid:1 2:5\n0 qid:1\n0 qid:2 1:1\n")
    (tmp_path / "test.txt").write_text("1 qid:3 4:7\n")
    dataset = prepare_in(tmp_path, "letor", tmp_path)
    assert lists_of(dataset, "train") == {1: ([1, 0], [[0, 5, 0, 0], [0] * 4]), 2: ([0], [[1, 0, 0, 0]])}
    assert lists_of(dataset, "test") == {3: ([1], [[0, 0, 0, 7]])}
    assert dataset.info["features"] == {"count": 4, "dtype": "float32", "first_index": 1}


def test_half_precision(folder):
    wide, half = (prepare_in(folder, "letor", folder, dtype=dtype, **LEARNED) for dtype in ("float32", "float16"))
    assert half["train"].features.dtype == torch.float16
    assert torch.equal(half["train"].features, wide["train"].features.half())
    assert half.info["transform"] == wide.info["transform"]
    assert half.info["features"]["dtype"] == "float16"


def test_what_does_not_fit_half_precision_is_refused_and_nothing_is_left(tmp_path):
    (tmp_path / "a.txt").write_text("1 qid:1 1:1e5\n1 qid:2 1:1\n")
    with pytest.raises(DataError, match=r"feature 0 \(from 0\) becomes 100000, which overflows float16"):
        prepare_in(tmp_path, "letor", tmp_path / "a.txt", dtype="float16", validation=0, test=0)
    assert not list(tmp_path.glob("*/prepared*"))
    prepare_in(tmp_path, "letor", tmp_path / "a.txt", dtype="float16", validation=0, test=0, log_features="all")


def test_features_that_are_missing_everywhere(tmp_path):
    (tmp_path / "a.txt").write_text("1 qid:1 1:NULL\n1 qid:2 1:null\n0 qid:2 1:NULL\n")
    for missing in ("zero", "mean", "min"):
        dataset = prepare_in(
            tmp_path, "letor", tmp_path / "a.txt", validation=0, test=0, missing=missing, standardise=True
        )
        assert dataset["train"].features.tolist() == [[0], [0], [0]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0 qid:1 1:1\n0 qid:2 1:1\n", "no training label is above 0; check the labels"),
        ("1 qid:1\n1 qid:2\n", "no row has a feature"),
        ("1 qid:1 1:2\n0 qid:1 1:3\n", "only one query is left"),
    ],
)
def test_lists_from_which_nothing_can_be_learned(tmp_path, text, message):
    (tmp_path / "a.txt").write_text(text)
    with pytest.raises(DataError, match=message):
        prepare_in(tmp_path, "letor", tmp_path / "a.txt", validation=0, test=0)
