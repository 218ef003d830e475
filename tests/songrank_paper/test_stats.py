"""The table of data set statistics."""

import pytest

from songrank.data import open_dataset
from songrank_paper.data_sets import SETS
from songrank_paper.experiment import Plan
from songrank_paper.given_sets import DataSets
from songrank_paper.stats import TableStats
from tests.songrank_paper.raw_files import movielens_20m, mslr
from tests.songrank_paper.small_experiments import made


def test_statistics_are_counts_of_the_files_with_the_papers_beside(tmp_path):
    given = {"movielens-20m": movielens_20m(tmp_path / "raw"), "mslr-web30k": mslr(tmp_path / "lists")}
    plan = Plan(quick=True, data=DataSets(given, tmp_path / "out", quick=True))
    tables = made(TableStats(), plan, tmp_path).tables
    row = dict(zip(tables["recommendation"].columns, tables["recommendation"].rows[0], strict=True))
    assert (row["data set"], row["used"]) == ("MovieLens20M", "real")
    movies = {line.split(",")[1] for line in (tmp_path / "raw/ml-20m/ratings.csv").read_text().splitlines()[1:]}
    assert (row["users"], row["items"], row["interactions"]) == (25, len(movies), 200)
    assert row["sparsity"] == pytest.approx(1 - 200 / (25 * len(movies)))
    assert (row["users, paper"], row["interactions, paper"], row["sparsity, paper"]) == (138_493, 20_000_263, 0.9946)
    row = dict(zip(tables["search"].columns, tables["search"].rows[0], strict=True))
    lists = {}
    for file in (tmp_path / "lists").rglob("*.txt"):
        for line in file.read_text().splitlines():
            lists[line.split()[1]] = lists.get(line.split()[1], 0) + 1
    assert (row["queries"], row["query-document pairs"]) == (18, sum(lists.values()))
    assert (row["maximum per query"], row["minimum per query"]) == (max(lists.values()), min(lists.values()))
    assert (row["query-document pairs, paper"], row["maximum per query, paper"]) == (3_771_125, 1_245)
    row = dict(zip(tables["labelling"].columns, tables["labelling"].rows[0], strict=True))
    dataset = open_dataset(plan.data["eurlex-4k"])
    assert (row["used"], row["labels"]) == ("synthetic", 300)
    assert row["training texts"] + row["test texts"] == dataset.num_queries
    assert row["labels per text"] == pytest.approx(dataset.num_pairs / dataset.num_queries)
    assert (row["labels per text, paper"], row["texts per label, paper"]) == (5.31, 25.73)


def test_sets_of_the_paper_that_are_not_used_keep_their_place(tmp_path):
    plan = Plan(quick=True, data=DataSets({}, tmp_path, quick=True))
    tables = made(TableStats(), plan, tmp_path).tables
    for task, table in tables.items():
        used = {row[0]: row[1] for row in table.rows}
        known = [one for one in SETS.values() if one.group == task and not one.stands_for and one.shape is not None]
        assert list(used.values()) == ["synthetic", "no"]
        assert list(used) == [one.title for one in known]
