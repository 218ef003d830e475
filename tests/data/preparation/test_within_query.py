"""Features compared within a query, beside plain loops, in files as users have them."""

import numpy as np
import pytest
import torch
from scipy.stats import rankdata

from songrank.data import prepare
from songrank.data.preparation.within_query import compare_within


def by_hand(values):
    """z-scores and ranks from −1 to 1 of one list, feature by feature; NaN is nothing."""
    z, rank = np.full_like(values, np.nan), np.full_like(values, np.nan)
    for feature in range(values.shape[1]):
        known = ~np.isnan(values[:, feature])
        column = values[known, feature]
        if column.size:
            spread = column.std()
            z[known, feature] = (column - column.mean()) / spread if len(set(column)) > 1 else 0.0
            count = column.size
            rank[known, feature] = 2 * (rankdata(column) - 1) / (count - 1) - 1 if count > 1 else 0.0
    return z, rank


@pytest.mark.parametrize("how", ["z", "rank", "z-rank"])
def test_each_list_is_compared_with_itself_alone(how):
    rng = np.random.default_rng(3)
    lengths = np.array([1, 7, 2, 0, 30, 3])
    features = rng.integers(0, 6, (lengths.sum(), 4)).astype(float) * 1000.0 + 1e6  # many ties, a large mean
    features[rng.random(features.shape) < 0.1] = np.nan
    features[8:10, 1] = 5.0
    lists = np.split(features, np.cumsum(lengths)[:-1])
    z, rank = (np.concatenate(parts) for parts in zip(*(by_hand(part) for part in lists), strict=True))
    expected = {"z": z, "rank": rank, "z-rank": np.concatenate([z, rank], 1)}[how]
    np.testing.assert_allclose(compare_within(features, lengths, how), expected, atol=1e-6)


def write(folder, *, shift=0.0):
    rng = np.random.default_rng(1)
    folder.mkdir()
    for number, name in enumerate(("train", "vali", "test")):
        lines = []
        for query in range(9):
            for _ in range(rng.integers(1, 6)):
                values = rng.normal(size=3) + (shift if name != "train" else 0)
                words = " ".join(f"{at + 1}:{value:.5f}" for at, value in enumerate(values))
                lines.append(f"{rng.integers(0, 3)} qid:{10 * number + query} {words}\n")
        rng.shuffle(lines)  # rows of a query need not stand together
        (folder / f"{name}.txt").write_text("".join(lines))
    return folder


def test_a_data_set_holds_both_and_says_so(tmp_path):
    source = write(tmp_path / "source")
    plain = prepare("letor", source, tmp_path / "plain")
    both = prepare("letor", source, tmp_path / "both", within_query="z-rank")
    assert both.info["features"]["count"] == 6
    assert both.info["features"]["within_query"] == "z-rank"
    for name in both:
        lists = plain[name].features.double().split(plain[name].lengths.tolist())
        expected = np.concatenate([np.concatenate(by_hand(part.numpy()), 1) for part in lists])
        np.testing.assert_allclose(both[name].features, expected, atol=1e-6)
    scaled = prepare("letor", source, tmp_path / "scaled", within_query="rank", standardise=True)
    assert scaled["train"].features.mean(0).tolist() == pytest.approx([0, 0, 0], abs=1e-6)


def test_what_is_held_out_changes_nothing_in_training(tmp_path):
    sets = [
        prepare(
            "letor",
            write(tmp_path / f"source{shift}", shift=shift),
            tmp_path / f"set{shift}",
            within_query="z-rank",
            standardise=True,
        )
        for shift in (0, 100)
    ]
    assert torch.equal(sets[0]["train"].features, sets[1]["train"].features)
    assert sets[0].info["transform"] == sets[1].info["transform"]


def test_flags_of_missing_values_stand_once_beside_scores_and_ranks(tmp_path):
    (tmp_path / "a.txt").write_text("1 qid:1 1:3 2:NULL\n0 qid:1 1:5 2:4\n0 qid:2 1:2 2:7\n")
    options = {"validation": 0, "test": 0, "within_query": "z-rank", "missing_flags": True}
    dataset = prepare("letor", tmp_path / "a.txt", tmp_path / "set", **options)
    assert dataset["train"].features.tolist() == [[-1, 0, -1, 0, 1], [1, 0, 1, 0, 0], [0, 0, 0, 0, 0]]
    assert (dataset.info["features"]["count"], dataset.info["transform"]["flags"]) == (5, [1])
