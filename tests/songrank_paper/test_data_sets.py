"""Data sets of the paper: what is given is taken, raw files are prepared once, the rest is synthetic and says so."""

from songrank.data import open_dataset, prepare
from songrank.training.config.yaml_text import shipped_recipes
from songrank_paper.data_sets import SETS, describe_set
from songrank_paper.given_sets import find_set
from songrank_paper.synthetic import SHAPES
from tests.songrank_paper.small_sets import PAPER, sequences


def test_synthetic_sets_have_the_counts_that_the_paper_gives():
    for names in PAPER.values():
        for name in names:
            known = SETS[name]
            plan = SHAPES[known.task][known.shape["shape"]]
            assert plan.items == known.published["items"]
            if known.task == "recommendation":
                assert (plan.queries, plan.pairs) == (known.published["queries"], known.published["pairs"])


def test_sets_of_shipped_recipes_have_a_name_here():
    starts = {"demo", "quick", "recommendation", "neumf", "sequences", "histories", "search", "auto", "ease"}
    starts |= {"labelling", "labelling-text"}
    assert set(shipped_recipes()) - starts - {"movielens-1m-sequences"} <= set(SETS)  # the last one is of movielens-1m


def test_stand_ins_stand_for_a_set_of_the_paper_of_their_task():
    for known in SETS.values():
        if known.stands_for:
            assert known.stands_for in PAPER[known.task]
            assert known.published == {}
        elif not known.benchmark:
            assert known.published["items"]


def test_a_set_is_described_by_what_it_really_is(tmp_path):
    synthetic = prepare("synthetic", None, tmp_path / "made", queries=30, items=40, pairs=300)
    assert "synthetic data (30 users, 40 items, 300 pairs) instead of Yelp" in describe_set("yelp", synthetic)
    given = open_dataset(find_set("yelp", {"yelp": sequences(tmp_path / "Yelp.txt")}, tmp_path / "out"))
    assert describe_set("yelp", given).endswith("pairs); substitute for MovieLens20M")
    assert "synthetic" not in describe_set("yelp", given)
