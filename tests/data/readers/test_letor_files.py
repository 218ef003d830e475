"""Which files of a LETOR folder belong to which split."""

import pytest

from tests.data.folders import write_zip
from tests.data.preparation.prepared import lists_of, prepare_in
from tests.data.readers.small_letor import FOLDS, GIVEN, prepared, queries_of, rows, write


@pytest.mark.parametrize(
    "files",
    [
        {"train.txt": rows(1, 2), "vali.txt": rows(3), "test.txt": rows(4)},
        {"deep/er/train.txt": rows(1, 2), "deep/er/valid.txt": rows(3), "deep/er/test.txt": rows(4)},
        {"set1.train.txt": rows(1, 2), "set1.valid.txt": rows(3), "set1.test.txt": rows(4)},
        {"TRAIN.TXT": rows(1, 2), "Dev.txt": rows(3), "Test.TXT": rows(4)},
        {"x-train.svm": rows(1, 2), "x-validation.svm": rows(3), "x-test.svm": rows(4), "README.txt": "hello"},
        {"web.train": rows(1, 2), "web.vali": rows(3), "web.test": rows(4)},
        {"trainingset.txt": rows(1, 2), "validationset.txt": rows(3), "testset.txt": rows(4)},
        {"train_1.txt": rows(1), "train_2.txt": rows(2), "dev.txt": rows(3), "test.txt": rows(4)},
        {"a.train1": rows(1), "a.train2": rows(2), "a.valid": rows(3), "a.test": rows(4)},
        {"train/part-0.txt": rows(1), "train/part-1.txt": rows(2), "val/part-0.txt": rows(3), "tst/0.txt": rows(4)},
        {"train.txt": rows(1, 2), "vali.txt": rows(3), "test.txt": rows(4), "README.txt": "hello"},
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_files_named_after_splits(tmp_path, files, packed):
    source = write_zip(tmp_path / "all.zip", files) if packed else write(tmp_path / "all", files)
    dataset = prepare_in(tmp_path, "letor", source)
    assert queries_of(dataset) == GIVEN
    assert lists_of(dataset, "train") == {1: ([1, 0], [[1], [0.5]]), 2: ([1, 0], [[2], [0.5]])}


def test_training_and_test_do(tmp_path):
    assert queries_of(prepared(tmp_path, {"train.txt": rows(1, 2), "test.txt": rows(3)})) == {
        "train": [1, 2],
        "test": [3],
    }


@pytest.mark.parametrize(("fold", "first"), [(None, 10), (1, 10), (2, 20)])
def test_folds(tmp_path, fold, first):
    files = {f"MSLR-WEB10K/{name}": text for name, text in FOLDS.items()}
    dataset = prepare_in(tmp_path, "letor", write_zip(tmp_path / "MSLR-WEB10K.zip", files), fold=fold)
    assert queries_of(dataset) == {name: [first + query for query in queries] for name, queries in GIVEN.items()}


@pytest.mark.parametrize("fold", [None, 2])
def test_a_fold_itself(tmp_path, fold):
    write(tmp_path, FOLDS)
    dataset = prepare_in(tmp_path, "letor", tmp_path / "Fold2", fold=fold)
    assert queries_of(dataset)["train"] == [21, 22]
    assert dataset.info["source"] == {"fold": 2}


def test_the_lowest_fold_that_is_there_is_taken_and_written_down(tmp_path):
    files = {name.replace("Fold1", "Fold3"): text for name, text in FOLDS.items()}
    dataset = prepared(tmp_path, files)
    assert queries_of(dataset)["train"] == [21, 22]
    assert dataset.info["source"] == {"fold": 2}


@pytest.mark.parametrize(("number", "first"), [(None, 10), (1, 10), (2, 20)])
def test_sets(tmp_path, number, first):
    files = {
        f"set{which}.{name}.txt": rows(*(query + 10 * which for query in queries))
        for which in (1, 2)
        for name, queries in (("train", (1, 2)), ("valid", (3,)), ("test", (4,)))
    }
    dataset = prepared(tmp_path, files, set=number)
    assert dataset.info["source"] == {"set": number or 1}
    assert queries_of(dataset) == {name: [first + query for query in queries] for name, queries in GIVEN.items()}


@pytest.mark.parametrize("letter", ["S", "A", "s"])
@pytest.mark.parametrize(
    ("fold", "train", "validation", "test"), [(None, [1, 2, 3], 4, 5), (2, [2, 3, 4], 5, 1), (4, [1, 4, 5], 2, 3)]
)
def test_partitions(tmp_path, letter, fold, train, validation, test):
    files = {f"MQ/{letter}{part}.txt": rows(part) for part in range(1, 6)} | {"MQ/README.txt": "hello"}
    dataset = prepared(tmp_path, files, fold=fold)
    assert queries_of(dataset) == {"train": train, "validation": [validation], "test": [test]}
    assert dataset.info["source"] == {"fold": fold or 1}


def test_a_fold_goes_before_a_partition(tmp_path):
    files = FOLDS | {f"S{part}.txt": rows(part) for part in range(1, 6)}
    assert queries_of(prepared(tmp_path, files, fold=2))["train"] == [21, 22]


def test_parts_are_read_in_the_order_of_their_numbers(tmp_path):
    parts = {f"train_{part}.txt": f"1 qid:1 1:{part}\n" for part in (1, 2, 10)}
    dataset = prepared(tmp_path, parts | {"test.txt": rows(3)})
    assert dataset["train"].features.flatten().tolist() == [1, 2, 10]
