"""LETOR text in all its layouts gives the rows that are in it."""

import gzip
import io
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_svmlight_file
from sklearn.preprocessing import StandardScaler

from songrank.data import DataError
from tests.data.folders import write_zip
from tests.data.preparation.prepared import lists_of, prepare_in, written
from tests.data.readers.small_letor import FOLDS, GIVEN, prepared, queries_of, rows, write


@pytest.mark.parametrize("name", ["data.txt", "train.txt", "test.txt", "data", "S1.txt"])
def test_a_single_file_is_split_at_random(tmp_path, name):
    (tmp_path / name).write_text(rows(*range(20)))
    dataset = prepare_in(tmp_path, "letor", tmp_path / name)
    assert {name: len(queries) for name, queries in queries_of(dataset).items()} == {
        "train": 16,
        "validation": 2,
        "test": 2,
    }


def test_compressed_files(tmp_path):
    for name, queries in (("train", (1, 2)), ("vali", (3,)), ("test", (4,))):
        (tmp_path / f"{name}.txt.gz").write_bytes(gzip.compress(rows(*queries).encode()))
    assert queries_of(prepare_in(tmp_path, "letor", tmp_path)) == GIVEN


GROUPED = {
    "rank.train": "2 1:1\n0 2:2\n1 1:3\n0 1:4 2:5\n",
    "rank.train.query": "3\n1\n",
    "rank.test": "1 1:6\n0 1:7\n",
    "rank.test.query": "2\n",
}

GROUPED_LISTS = {0: ([2, 0, 1], [[1, 0], [0, 2], [3, 0]]), 1: ([0], [[4, 5]])}


@pytest.mark.parametrize("ending", ["query", "group"])
@pytest.mark.parametrize("block_bytes", [5, 1 << 20])
def test_group_sizes(tmp_path, ending, block_bytes):
    files = {name.replace("query", ending): text for name, text in GROUPED.items()}
    dataset = prepared(tmp_path, files, block_bytes=block_bytes)
    assert lists_of(dataset, "train") == GROUPED_LISTS
    assert lists_of(dataset, "test") == {2: ([1, 0], [[6, 0], [7, 0]])}
    assert dataset.info["features"] == {"count": 2, "dtype": "float32", "first_index": 1}


def test_features_that_count_from_0_beside_group_sizes(tmp_path):
    dataset = prepared(tmp_path, GROUPED | {"rank.test": "1 0:6\n0 1:7\n"})
    assert dataset.info["features"] == {"count": 3, "dtype": "float32", "first_index": 0}
    assert lists_of(dataset, "train")[1] == ([0], [[0, 4, 5]])
    assert lists_of(dataset, "test") == {2: ([1, 0], [[6, 0, 0], [0, 7, 0]])}


def test_features_that_are_said_to_count_from_0(tmp_path):
    dataset = prepared(tmp_path, {"train.txt": "1 qid:1 0:1 1:2\n", "test.txt": "1 qid:2 1:3\n"}, first_index="0")
    assert lists_of(dataset, "test") == {2: ([1], [[0, 3]])}


def test_groups_of_a_single_file(tmp_path):
    write(tmp_path, GROUPED)
    alone = prepare_in(tmp_path, "letor", tmp_path / "rank.train", validation=0, test=0)
    assert lists_of(alone, "train") == GROUPED_LISTS
    write_zip(tmp_path / "rank.zip", GROUPED)
    packed = prepare_in(tmp_path, "letor", tmp_path / "rank.zip" / "rank.train", validation=0, test=0)
    assert written(packed) == written(alone)


def test_groups_without_rows_are_left_out(tmp_path):
    dataset = prepared(tmp_path, GROUPED | {"rank.train.query": "3\n0\n\n1\n0\n"})
    assert queries_of(dataset) == {"train": [0, 2], "test": [4]}
    assert dataset.info["made"]["left_out"] == {"groups without rows": 2}


def test_training_groups_do_not_depend_on_test_groups(tmp_path):
    dataset = prepared(tmp_path, GROUPED | {"rank.test.query": "1\n1\n"})
    assert queries_of(dataset) == {"train": [0, 1], "test": [2, 3]}


LINES = {"train.txt": rows(1, 2), "test.txt": rows(3)}


@pytest.mark.parametrize(
    ("files", "options", "message"),
    [
        ({}, {}, "contains no LETOR files, e.g. train.txt and test.txt, or S1.txt to S5.txt; it is empty"),
        ({"data.csv": "1"}, {}, "contains no LETOR files.*; found data.csv"),
        (FOLDS, {"fold": 3}, "has no fold 3; expected one of 1, 2"),
        (LINES, {"fold": 2}, "fold is 2, but there is only one; omit the option"),
        (LINES, {"set": 2}, "set is 2, but there is only one; omit the option"),
        (
            {"set1.train.txt": rows(1), "set1.test.txt": rows(2)},
            {"set": 2},
            "has no set 2; expected one of 1",
        ),
        ({f"S{n}.txt": rows(n) for n in (1, 2, 4)}, {}, "S3.txt, S5.txt missing; expected all five parts"),
        ({f"S{n}.txt": rows(n) for n in range(1, 6)}, {"fold": 6}, "fold is 6; expected 1 to 5"),
        ({f"{a}/S{n}.txt": rows(n) for n in range(1, 6) for a in "ab"}, {}, "cannot assign files to splits"),
        ({"a.txt": rows(1), "b.txt": rows(2)}, {}, "cannot assign files to splits: a.txt, b.txt; pass one of them"),
        (
            LINES | {"old/train.txt": rows(9)},
            {},
            "has two files for train: old/train.txt and train.txt; pass a directory",
        ),
        (LINES | {"train_2.txt": rows(9)}, {}, "has two files for train: train.txt and train_2.txt"),
        (
            {"train_fold1.txt": rows(1), "train_fold2.txt": rows(2), "test.txt": rows(3)},
            {},
            "has two files for train: train_fold1.txt and train_fold2.txt",
        ),
        (
            LINES | {"more.txt": rows(9)},
            {},
            "test.txt names a split, but more.txt does not .* ignored; rename it after .* pass one file, e.g.",
        ),
        ({"test.txt": rows(1, 2, 3)}, {}, "rows for test, but none for training; add them, or set split=random"),
        ({"vali.txt": rows(1, 2, 3)}, {}, "rows for validation, but none for training"),
        (LINES, {"max_index": 3_000_000_000}, "option max_index is 3000000000; expected less than or equal to 21474"),
        ({"train.txt": rows(1, 2), "vali.txt": rows(3)}, {}, "rows for train and validation, but none for test"),
        ({"vali.txt": rows(1, 2), "test.txt": rows(3)}, {}, "rows for validation and test, but none for training"),
        (
            LINES | {"test.txt": rows(7, 2)},
            {},
            "query 2 has rows in train and in test; move all rows of a query to one split",
        ),
        (LINES | {"test.txt": ""}, {}, r"test.txt: is empty"),
        (LINES | {"test.txt": "# nothing\n\n"}, {}, "test.txt: has no rows; expected at least one document"),
        (LINES | {"test.txt": "1 qid:3 1:x\n"}, {}, r"test.txt, line 1: feature 1 is 'x'"),
        (LINES | {"test.txt": "1 1:2\n"}, {}, "has neither qid: nor a file test.txt.query; write"),
        (LINES | {"test.txt": rows(3) + "1 1:2\n"}, {}, "test.txt, line 3: has no qid:, unlike previous lines"),
        (LINES | {"test.txt": "1 qid:3 0:1\n"}, {}, "feature index is '0' in '0:1'.*set first_index=0"),
        (LINES | {"test.txt": "1 qid:3 10001:1\n"}, {}, "expected at most 10,000.*increase max_index"),
        (
            LINES | {"test.txt.query": "2\n"},
            {},
            "has both qid: and group sizes in test.txt.query; remove",
        ),
        (GROUPED | {"rank.train.query": "3\n2\n"}, {}, "has 4 rows, but the group sizes in rank.train.query sum to 5"),
        (GROUPED | {"rank.train.query": "3\n"}, {}, "has 4 rows, but the group sizes in rank.train.query sum to 3"),
        (
            GROUPED | {"rank.train.query": "999999999999\n"},
            {},
            "has 4 rows, but the group sizes in .* sum to 999,999,999,999",
        ),
        (GROUPED | {"rank.train.query": "\n"}, {}, "has 4 rows, but the group sizes in rank.train.query sum to 0"),
        (GROUPED | {"rank.train.query": ""}, {}, "rank.train.query: is empty"),
        (
            GROUPED | {"rank.train.query": "3\n\n-1\n"},
            {},
            "rank.train.query, line 3: group size is '-1'; expected a whole",
        ),
        (GROUPED | {"rank.train.query": "3\none\n"}, {}, "rank.train.query, line 2: group size is 'one'"),
        (GROUPED | {"rank.train.query": "3.0\n1\n"}, {}, "rank.train.query, line 1: group size is '3.0'"),
        (GROUPED | {"rank.test.query": "1\n1\n", "rank.train": "0 1:1\n" * 4}, {}, "no training label is above 0"),
        (GROUPED | {"rank.train": "1\n" * 4, "rank.test": "1\n" * 2}, {}, "no row has a feature"),
    ],
)
def test_mistakes(tmp_path, files, options, message):
    with pytest.raises(DataError, match=message):
        prepared(tmp_path, files, **options)


def test_one_feature_with_a_number_that_is_far_too_high(tmp_path, monkeypatch):
    files = {"train.txt": rows(*range(50)), "test.txt": "1 qid:99 9999:1\n"}
    assert prepared(tmp_path, files).info["features"]["count"] == 9_999
    monkeypatch.setattr("songrank.data.preparation.feature_store.MAX_BYTES_IF_EMPTY", 10**6)
    with pytest.raises(
        DataError, match=r"feature 9,999 would require a table of 0.0 GB for 101 values; number .* from 1"
    ):
        prepare_in(tmp_path, "letor", tmp_path / "source")


def test_qid_that_ends_between_blocks(tmp_path):
    text = rows(1, 2) + "1 1:2\n"
    (tmp_path / "a.txt").write_text(text)
    with pytest.raises(DataError, match=r"a.txt, line 5: .*some lines have qid: and others do not"):
        prepare_in(tmp_path, "letor", tmp_path / "a.txt", block_bytes=1)


WORDS = "0 1 -1 2.5 1e3 1e99 nan NULL qid: qid:1 qid:x qid:99999999999999999999 :: : 1: 1:1 2:NULL 1:2:3 3:-4 0:1 ä #"

PIECES = st.sampled_from([*WORDS.split(" "), "100000:1", "999999999999:1", " ", "\t", "\n", "\n", "\r\n", "\x00"])


@settings(deadline=None, max_examples=150)
@given(
    parts=st.lists(PIECES, max_size=30),
    space=st.sampled_from([" ", ""]),
    name=st.sampled_from(["test.txt", "test.txt.query"]),
    block_bytes=st.sampled_from([3, 50, 1 << 20]),
)
def test_whatever_is_in_a_file_is_read_or_refused(parts, space, name, block_bytes, tmp_path_factory):
    folder = write(tmp_path_factory.mktemp("odd"), LINES)
    (folder / name).write_bytes(space.join(parts).encode("utf-8"))
    try:
        dataset = prepare_in(folder, "letor", folder, block_bytes=block_bytes, standardise=True, missing="mean")
    except DataError as error:
        assert "\n" not in str(error)  # most are refused, and each way of it is fine
    else:
        assert dataset["test"].features.isfinite().all()


def test_an_archive_that_is_cut_off(tmp_path):
    path = write_zip(tmp_path / "a.zip", LINES)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(DataError, match=r"a.zip: is truncated or damaged"):
        prepare_in(tmp_path, "letor", path)


def counts(dataset):
    return {name: (dataset[name].num_queries, dataset[name].label.shape[0]) for name in dataset}


@pytest.mark.parametrize("fold", range(1, 6))
def test_mq2008(real_data, tmp_path, fold):
    dataset = prepare_in(tmp_path, "letor", real_data / "mq2008.zip", fold=fold)
    assert (dataset.num_queries, dataset.num_items, dataset.info["features"]["count"]) == (784, 15_211, 46)
    if fold == 1:  # as published
        assert counts(dataset) == {"train": (471, 9_630), "validation": (157, 2_707), "test": (156, 2_874)}


def test_mq2007_agg(real_data, tmp_path):
    dataset = prepare_in(tmp_path, "letor", real_data / "mq2007-agg.zip", missing="min")
    assert (dataset.num_queries, dataset.num_items, dataset.info["features"]["count"]) == (1_692, 69_623, 21)
    with zipfile.ZipFile(real_data / "mq2007-agg.zip") as archive:
        nulls = sum(archive.read(name).count(b":NULL") for name in archive.namelist())
    assert dataset.info["made"]["left_out"] == {"missing values replaced": nulls}
    train = dataset["train"].features
    assert train.isfinite().all()
    assert dataset.info["transform"]["missing"] == train.min(0).values.tolist()


def test_mslr_sample(real_data, tmp_path):
    dataset = prepare_in(tmp_path, "mslr-web10k", real_data / "mslr-web10k-sample.zip")
    assert counts(dataset) == {"train": (43, 5_000), "test": (43, 5_000)}
    assert dataset.info["features"]["count"] == 136
    assert dataset.info["training"] == {"list_size": 100}


def test_lightgbm_example(real_data, tmp_path):
    dataset = prepare_in(tmp_path, "letor", real_data / "lightgbm-rank.zip")
    assert counts(dataset) == {"train": (201, 3_005), "test": (50, 768)}
    assert dataset.info["features"]["count"] == 300
    with zipfile.ZipFile(real_data / "lightgbm-rank.zip") as archive:
        for split in dataset:
            sizes = [int(size) for size in archive.read(f"rank.{split}.query").split()]
            matrix, label = load_svmlight_file(io.BytesIO(archive.read(f"rank.{split}")), n_features=300)
            assert dataset[split].lengths.tolist() == sizes
            assert dataset[split].label.tolist() == label.tolist()
            assert np.array_equal(dataset[split].features.numpy(), matrix.toarray().astype(np.float32))


def test_scikit_learn_agrees_on_real_rows(real_data, tmp_path):
    dataset = prepare_in(tmp_path, "letor", real_data / "mslr-web10k-sample.zip", standardise=True)
    read = {}
    with zipfile.ZipFile(real_data / "mslr-web10k-sample.zip") as archive:
        for split in ("train", "test"):
            data = io.BytesIO(archive.read(f"MSLR-WEB10K-sample/{split}.txt"))
            matrix, label, query = load_svmlight_file(data, n_features=136, query_id=True)
            order = np.argsort(query, kind="stable")
            read[split] = matrix.toarray()[order].astype(np.float32), label[order], query[order]
    scaler = StandardScaler().fit(read["train"][0].astype(np.float64))
    for split, (matrix, label, query) in read.items():
        found = dataset[split]
        assert list(dataset.split_query_ids(split)) == np.unique(query).tolist()
        assert found.label.tolist() == label.tolist()
        assert found.lengths.tolist() == np.unique(query, return_counts=True)[1].tolist()
        expected = scaler.transform(matrix.astype(np.float64))
        np.testing.assert_allclose(found.features.numpy(), expected, rtol=1e-6, atol=1e-7)
