"""Bags of words in the Extreme Classification format."""

import gzip

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from songrank.data import DataError, prepare
from tests.data.folders import contents, write_zip
from tests.data.readers.labelled import features_of, few, labels_of, write_files

TRAIN = "3 6 4\n0,3 1:0.5 5:2\n 0:-1e-1\n2 4:.25\n"

TEST = "1 6 4\n1 2:1\n"


def read(folder, train, test=TEST, **options):
    source = write_files(folder / "source", {"x_train.txt": train, "x_test.txt": test})
    return prepare("xmc", source, folder / "set", **options)


def test_every_row_and_every_label_of_the_header_is_kept(tmp_path):
    dataset = read(tmp_path, TRAIN)
    assert (dataset.task, dataset.num_queries, dataset.num_items, dataset.num_pairs) == ("labelling", 4, 4, 4)
    assert list(dataset.item_ids) == [0, 1, 2, 3]
    assert labels_of(dataset, "train") == {0: [0, 3], 1: [], 2: [2]}
    assert features_of(dataset, "train") == [{1: 0.5, 5: 2.0}, {0: np.float32(-0.1)}, {4: 0.25}]
    assert dataset["train"].label.tolist() == [1.0, 1.0, 1.0]
    assert dataset.info["features"] == {"count": 6, "kind": "sparse", "scale": "none"}
    assert dataset["test"].features.dense([0], 6).tolist() == [[0, 0, 1, 0, 0, 0]]


@pytest.mark.parametrize("line", ["0:1 3:2", " 0:1 3:2", "  0:1  3:2 ", "\t0:1\t3:2"])
def test_a_row_without_labels_may_begin_with_a_blank_or_a_feature(line, tmp_path):
    dataset = read(tmp_path, f"2 6 4\n{line}\n1 1:1\n")
    assert labels_of(dataset, "train") == {0: [], 1: [1]}
    assert features_of(dataset, "train")[0] == {0: 1.0, 3: 2.0}


def test_blank_lines_are_rows_up_to_the_number_the_header_says(tmp_path):
    dataset = read(tmp_path, "3 6 4\n1 1:1\n\n2\n\n \n")
    assert labels_of(dataset, "train") == {0: [1], 1: [], 2: [2]}
    assert features_of(dataset, "train") == [{1: 1.0}, {}, {}]


def test_features_in_any_order_are_sorted(tmp_path):
    dataset = read(tmp_path, "1 6 4\n1 5:2 0:1\n")
    assert dataset["train"].features["index"].tolist() == [0, 5]


def test_a_repeated_label_is_kept_once_and_counted(tmp_path):
    dataset = read(tmp_path, "1 6 4\n1,2,1 5:2\n")
    assert labels_of(dataset, "train") == {0: [1, 2]}
    assert dataset.info["made"]["left_out"] == {"labels repeated in a row": 1}


def test_archives_compression_windows_line_ends_and_marks_change_nothing(tmp_path):
    plain = write_files(tmp_path / "plain", {"a_trn.txt": TRAIN, "a_tst.txt": TEST})
    mixed = write_files(tmp_path / "mixed", {"a_trn.txt.gz": gzip.compress(TRAIN.encode()), "a_tst.txt": TEST})
    windows = "\ufeff" + TRAIN.replace("\n", "\r\n").removesuffix("\r\n")
    archive = write_zip(tmp_path / "a.zip", {"A/a_trn.txt": windows, "A/a_tst.txt": TEST, "A/readme.txt": "hello"})
    for number, source in enumerate((plain, mixed, archive)):
        prepare("xmc", source, tmp_path / str(number))
    first = contents(tmp_path / "0")
    for number in ("1", "2"):
        assert all(contents(tmp_path / number)[name] == first[name] for name in first if name != "dataset.json")


def test_files_of_other_kinds_beside_the_data_are_passed_over(tmp_path):
    others = {
        "filter_labels_test.txt": "0 1\n",
        "train_labels.txt": "a b\n",
        "x_trSplit.txt": "1 2\n",
        "Readme.txt": "hi",
    }
    source = write_files(tmp_path / "source", {"train.txt": TRAIN, "test.txt": TEST, **others})
    assert prepare("xmc", source, tmp_path / "set").num_queries == 4


@pytest.mark.parametrize(
    ("train", "line", "message"),
    [
        ("", None, "is empty"),
        ("1,2 0:1\n", 1, "the first line is '1,2 0:1'; expected three whole numbers"),
        ("3 6\n", 1, "the first line is '3 6'"),
        ("3 6 -4\n", 1, "the first line is '3 6 -4'"),
        ("1.0 6 4\n", 1, "the first line is '1.0 6 4'"),
        ("1 6 4 9\n", 1, "the first line is '1 6 4 9'"),
        ("1 6 9999999999\n", 1, "the header gives 9,999,999,999 labels"),
        ("1 9999999999 4\n", 1, "the header gives 9,999,999,999 features"),
        ("1 7 4\n1 0:1\n", 1, "the header gives 6 features, but that of"),
        ("1 6 5\n1 0:1\n", 1, "the header gives 4 labels, but that of"),
        ("3 6 4\n1 0:1\n2 0:1\n", None, "the header gives 3 rows, but there are 2"),
        ("1 6 4\n1 0:1\n\n2 0:1\n", 4, "the header gives 1 rows, but this is row 3"),
        ("2 6 4\n1 0:1\n4 0:1\n", 3, "label is '4', but the header gives 4 labels"),
        ("2 6 4\n1 0:1\n-1 0:1\n", 3, "label is '-1'; expected a whole number"),
        ("1 6 4\na 0:1\n", 2, "label is 'a'"),
        ("1 6 4\n1,,2 0:1\n", 2, "label is ''"),
        ("1 6 4\n1, 2 0:1\n", 2, "label is ''"),
        ("1 6 4\n1 2 0:1\n", 2, "'2' has no colon"),
        (f"1 6 4\n{'9' * 5000} 0:1\n", 2, "but the header gives 4 labels"),
        ("1 6 4\n1 6:1\n", 2, "feature is '6', but the header gives 6 features"),
        ("1 6 4\n1 -1:1\n", 2, "feature is '-1'"),
        ("1 6 4\n1 1.0:1\n", 2, "feature is '1.0'"),
        ("1 6 4\n1 :1\n", 2, "feature is ''"),
        ("1 6 4\n1 0:1 3:1 0:2\n", 2, "feature 0 is repeated"),
        ("1 6 4\n1 0:\n", 2, "feature 0 is ''; expected a finite number"),
        ("1 6 4\n1 0:nan\n", 2, "feature 0 is 'nan'"),
        ("1 6 4\n1 0:inf\n", 2, "feature 0 is 'inf'"),
        ("1 6 4\n1 0:1e39\n", 2, "feature 0 is '1e39'"),
        ("1 6 4\n1 0:NULL\n", 2, "feature 0 is 'NULL'"),
        ("1 6 4\n1 0:1_0\n", 2, "feature 0 is '1_0'"),
        ("1 6 4\n1 0:1 # hello\n", 2, "'#' has no colon"),
        ("1 6 4\n1 qid:7 0:1\n", 2, "feature is 'qid'"),
        (b"1 6 4\n1 0:caf\xe9\n", 2, r"feature 0 is 'caf\xe9'"),
        ("1 6 4\n1 0:\x00\n", 2, "NUL byte"),
    ],
)
def test_mistakes_are_named_with_file_and_line(train, line, message, tmp_path):
    with pytest.raises(DataError) as error:
        read(tmp_path, train)
    assert message in str(error.value)
    assert "x_t" in error.value.file
    assert error.value.line == line
    assert not (tmp_path / "set").exists()


def test_rows_without_any_label_at_all_are_refused(tmp_path):
    with pytest.raises(DataError, match="no training label is above 0"):
        read(tmp_path, "1 6 4\n 0:1\n", "1 6 4\n 0:1\n")


def test_training_rows_without_a_label_are_refused(tmp_path):
    with pytest.raises(DataError, match="no training label is above 0"):
        read(tmp_path, "1 6 4\n 0:1\n")


@pytest.mark.parametrize("member", ["x_data.txt", ""])
def test_lists_of_rows_for_splits_are_not_passed_over_silently(member, tmp_path):
    lists = {"x_trSplit.txt": "1\n2\n", "x_tstSplit.txt": "3\n3\n"}
    source = write_files(tmp_path / "source", {"x_data.txt": TRAIN, **lists})
    with pytest.raises(DataError, match=r"row splits in x_trSplit.txt are not supported; .* split=random"):
        prepare("xmc", source / member, tmp_path / "set")
    assert prepare("xmc", source / member, tmp_path / "set", split="random", validation=0).num_queries == 3


@few
@given(st.one_of(st.binary(max_size=60), st.text("0123 :,.\n-e", max_size=60).map(lambda t: b"2 9 9\n" + t.encode())))
def test_any_bytes_are_rows_or_a_data_error(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("fuzz")
    (folder / "x.txt").write_bytes(data)
    try:
        prepare("xmc", folder / "x.txt", folder / "set")
    except DataError as error:
        assert "\n" not in str(error)


def test_eurlex_has_the_published_counts(real_data, tmp_path):
    dataset = prepare("xmc", real_data / "eurlex-4k.zip", tmp_path / "set")
    assert dataset.num_items == 3_993
    assert dataset.info["features"]["count"] == 5_000
    assert {split: dataset[split].num_queries for split in dataset} == {"train": 15_539, "test": 3_809}
    without = {split: int((dataset[split].offsets.diff() == 0).sum()) for split in dataset}
    assert without == {"train": 28, "test": 6}
    assert dataset.num_pairs / dataset.num_queries == pytest.approx(5.31, abs=0.005)
    assert dataset.num_pairs / dataset.num_items == pytest.approx(25.73, abs=0.005)
    assert labels_of(dataset, "train")[0] == [446, 521, 1149, 1249, 1265, 1482]
    assert dataset["train"].features["value"][:2].tolist() == [np.float32(0.084556), np.float32(0.138594)]


@pytest.mark.parametrize(
    ("scale", "row"), [("none", [3, 4]), ("l2", [0.6, 0.8]), ("log-l2", [1.3863 / 2.1277, 1.6094 / 2.1241])]
)
def test_rows_of_features_can_be_scaled_to_length_one(scale, row, tmp_path):
    text = "3 4 2\n0 0:3 2:4\n1 1:-2\n0 3:0\n"
    write_files(tmp_path / "source", {"train.txt": text, "test.txt": text})
    dataset = prepare("xmc", tmp_path / "source", tmp_path / "data", scale=scale)
    dense = dataset["train"].features.dense(torch.arange(3), dataset["train"].num_features)
    assert dense[0, [0, 2]].tolist() == pytest.approx(row, rel=2e-3)
    assert dense[1].tolist() == [0, -2 if scale == "none" else -1, 0, 0]
    assert dense[2].tolist() == [0, 0, 0, 0]
    assert dataset.info["features"]["scale"] == scale
