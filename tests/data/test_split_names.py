"""Which split a file is for, as its name says."""

import pytest

from songrank.data.split_names import split_of_path


@pytest.mark.parametrize(
    ("split", "paths"),
    [
        (
            "train",
            "train train_1.txt train2.txt TRAIN.TXT train-00000-of-00001.parquet set1.train.txt rank.train trn.csv "
            "trainingset.txt train/part-0.parquet a/train/b/0.csv test/train.txt test-train.txt train.csv.gz Trn_X.txt",
        ),
        ("validation", "dev.txt val.txt vali.txt valid_2.txt validation.txt validationset.txt train/x/val/part-0.csv"),
        ("test", "test tst.txt testset.txt my_test.csv train_vs_test.csv train/test/0.csv"),
        (None, "latest.txt contest.csv latest/a.txt trainer.csv devices.csv a.txt 1.txt validated/restart.csv"),
    ],
)
def test_words_of_names_and_folders(split, paths):
    assert {path: split_of_path(path, (".txt", ".csv", ".parquet")) for path in paths.split()} == dict.fromkeys(
        paths.split(), split
    )
