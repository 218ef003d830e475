"""How the pairs of an interaction log are divided into splits."""

import numpy as np
import pytest

from songrank.data import DataError, prepare
from songrank.data.preparation.pair_splits import leave_last_out, random_codes, time_codes
from tests.data.small_log import log


@pytest.mark.parametrize("split", ["time", "random"])
def test_fractions_of_a_split_by_time_or_at_random(split, tmp_path):
    dataset = prepare("interactions", log(), tmp_path / "set", split=split, validation=0.2, test=0.1, duplicates="keep")
    counts = {name: part.num_pairs for name, part in dataset.items()}
    assert sum(counts.values()) == 400
    if split == "random":
        assert counts == {"train": 280, "validation": 80, "test": 40}
        other = prepare("interactions", log(), tmp_path / "other", split=split, seed=1, validation=0.2, test=0.1)
        assert other["test"].item.tolist() != dataset["test"].item.tolist()
    else:
        assert dataset["train"].time.max() < dataset["validation"].time.min()
        assert dataset["validation"].time.max() < dataset["test"].time.min()


def test_holdout_n_takes_the_last_n_and_the_n_before(tmp_path):
    rows = {"user": [1] * 7 + [2] * 4, "item": [*range(7), *range(4)]}
    dataset = prepare("interactions", rows, tmp_path / "set", holdout=2)
    assert dataset["test"].item.tolist() == [5, 6]
    assert dataset["validation"].item.tolist() == [3, 4]
    assert dataset["train"].item.tolist() == [0, 1, 2, 0, 1, 2, 3]
    left = dataset.info["made"]["left_out"]
    assert left == {"queries too short to hold out pairs (all for training)": 1}


def test_split_codes_spelled_out():
    assert leave_last_out(np.array([5, 0, 3]), 1)[0].tolist() == [0, 0, 0, 1, 2, 0, 1, 2]
    assert np.bincount(random_codes(1000, 0.25, 0.5, 3)).tolist() == [250, 250, 500]
    assert time_codes(np.array([9, 1, 9, 5, 2]), 0.2, 0.2).tolist() == [2, 0, 2, 1, 0]
    assert time_codes(np.array([4, 4, 4]), 0.3, 0.3).tolist() == [2, 2, 2]


def test_a_holdout_longer_than_any_history_is_refused_at_once(tmp_path):
    with pytest.raises(DataError, match="no query has 2000000001 interactions"):
        prepare("interactions", log(), tmp_path / "set", holdout=10**9)
