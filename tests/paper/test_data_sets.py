"""Data sets of the paper: what is given is taken, raw files are prepared once, the rest is synthetic and says so."""

import random
import zipfile

import pytest

from songrank.data import open_dataset, prepare
from songrank.data.errors import DataError
from songrank.data.synthetic import SHAPES
from songrank.errors import UserError
from songrank.paper.data_sets import SETS, describe_set
from songrank.paper.given_sets import DataSets, find_set, read_given
from songrank.training.recipe_files import shipped_recipes
from songrank.training.run_directory import fingerprint
from tests.paper.raw_files import movielens_20m, mslr

PAPER = {
    "recommendation": ["movielens-20m", "netflix"],
    "search": ["mslr-web30k", "yahoo-ltr"],
    "labelling": ["eurlex-4k", "wiki10-31k"],
}


def sequences(file, users=12):
    rng = random.Random(0)
    lines = [" ".join(map(str, [user, *rng.sample(range(30), 6)])) for user in range(1, users + 1)]
    file.write_text("\n".join(lines) + "\n")
    return file


@pytest.mark.parametrize("quick", [False, True])
def test_where_nothing_is_given_each_task_has_synthetic_sets_of_the_paper(tmp_path, quick):
    names = [name for some in PAPER.values() for name in (some[:1] if quick else some)]
    assert list(DataSets({}, tmp_path, quick=quick)) == names


def test_what_is_given_takes_the_place_of_all_synthetic_sets_of_its_task(tmp_path):
    sets = DataSets({"bibtex": tmp_path, "mq2008": tmp_path}, tmp_path)
    assert list(sets) == [*PAPER["recommendation"], "mq2008", "bibtex"]
    assert "eurlex-4k" not in sets
    with pytest.raises(KeyError):
        sets["eurlex-4k"]


def test_a_set_is_prepared_when_it_is_asked_for_and_only_once(tmp_path):
    said = []
    sets = DataSets({}, tmp_path, quick=True, report=said.append)
    assert list(tmp_path.iterdir()) == []
    path = sets["eurlex-4k"]
    assert open_dataset(path).task == "labelling"
    assert sets.used == {"eurlex-4k"}
    before = (path / "dataset.json").stat().st_ino
    again = DataSets({}, tmp_path, quick=True, report=said.append)["eurlex-4k"]
    assert (again / "dataset.json").stat().st_ino == before
    assert said == ["preparing eurlex-4k-synthetic-small"]


@pytest.mark.parametrize("name", [name for name, known in SETS.items() if known.shape is not None])
def test_small_synthetic_sets_are_small_and_of_their_task(tmp_path, name):
    dataset = open_dataset(find_set(name, {}, tmp_path, quick=True))
    assert (dataset.task, dataset.name) == (SETS[name].task, "synthetic")
    assert list(dataset) == ["train", "validation", "test"]
    assert dataset.num_queries <= 1_200
    assert dataset.num_pairs <= 24_000


def test_synthetic_sets_have_the_counts_that_the_paper_gives():
    for names in PAPER.values():
        for name in names:
            known = SETS[name]
            plan = SHAPES[known.task][known.shape["shape"]]
            assert plan.items == known.published["items"]
            if known.task == "recommendation":
                assert (plan.queries, plan.pairs) == (known.published["queries"], known.published["pairs"])


def test_sets_of_shipped_recipes_have_a_name_here():
    starts = {"demo", "recommendation", "search", "labelling", "labelling-text"}
    assert set(shipped_recipes()) - starts <= set(SETS)


def test_stand_ins_stand_for_a_set_of_the_paper_of_their_task():
    for known in SETS.values():
        if known.stands_for:
            assert known.stands_for in PAPER[known.task]
            assert known.published == {}
        else:
            assert known.published["items"]


def test_raw_files_are_prepared_into_the_output(tmp_path):
    given = {"movielens-20m": movielens_20m(tmp_path / "raw"), "mslr-web30k": mslr(tmp_path / "lists")}
    sets = DataSets(given, tmp_path / "out")
    ratings, lists = open_dataset(sets["movielens-20m"]), open_dataset(sets["mslr-web30k"])
    assert (ratings.name, ratings.num_queries) == ("movielens-20m", 25)
    assert (lists.name, lists.num_queries) == ("mslr-web30k", 18)
    assert lists.info["training"]["list_size"] == 100
    assert sets["movielens-20m"] == tmp_path / "out" / "data" / "movielens-20m"


def test_files_that_have_changed_are_prepared_again(tmp_path):
    raw = sequences(tmp_path / "Beauty.txt")
    first = fingerprint(open_dataset(find_set("amazon-beauty", {"amazon-beauty": raw}, tmp_path / "out")))
    sequences(raw, users=13)
    dataset = open_dataset(find_set("amazon-beauty", {"amazon-beauty": raw}, tmp_path / "out"))
    assert dataset.num_queries == 13
    assert fingerprint(dataset) != first


@pytest.mark.parametrize("packed", ["file", "folder", "archive"])
def test_one_file_among_several_is_found_by_its_name(tmp_path, packed):
    raw = tmp_path / "raw"
    raw.mkdir()
    for name, users in (("Beauty.txt", 12), ("Yelp.txt", 14)):
        sequences(raw / name, users)
    with zipfile.ZipFile(tmp_path / "sequences.zip", "w") as archive:
        for file in raw.iterdir():
            archive.write(file, f"some/{file.name}")
    path = {"file": raw / "Yelp.txt", "folder": raw, "archive": tmp_path / "sequences.zip"}[packed]
    assert open_dataset(find_set("yelp", {"yelp": path}, tmp_path / "out")).num_queries == 14


def test_a_prepared_set_is_taken_as_it_is(tmp_path):
    prepare("synthetic", None, tmp_path / "mine", queries=30, items=40, pairs=300)
    assert find_set("netflix", {"netflix": tmp_path / "mine"}, tmp_path / "out") == tmp_path / "mine"
    assert not (tmp_path / "out").exists()


def test_a_set_of_another_task_is_refused(tmp_path):
    prepare("synthetic", None, tmp_path / "mine", queries=30, items=40, pairs=300)
    with pytest.raises(DataError, match="is a data set of recommendation; expected one of search, as mq2008 is"):
        find_set("mq2008", {"mq2008": tmp_path / "mine"}, tmp_path / "out")


def test_texts_cannot_be_made_up(tmp_path):
    with pytest.raises(UserError, match="no synthetic eurlex-4k-text; give it with --data eurlex-4k-text=PATH"):
        find_set("eurlex-4k-text", {}, tmp_path)


def test_words_of_the_command_line_are_checked(tmp_path):
    (tmp_path / "a=b.zip").write_text("")
    assert read_given([f"yelp={tmp_path / 'a=b.zip'}"]) == {"yelp": tmp_path / "a=b.zip"}
    (tmp_path / "file").write_text("")
    assert read_given([f"yelp={tmp_path}/file/Yelp.txt"])  # into an archive, which preparing will look at
    for words, message in (
        (["yelp"], "--data is 'yelp'; expected NAME=PATH"),
        (["yelp="], "expected NAME=PATH"),
        (["movielens-1=x"], "'movielens-1' is no data set of the paper; did you mean movielens-1m?"),
        (["zzz=x"], "'zzz' is no data set of the paper; expected one of movielens-20m, netflix"),
        ([f"yelp={tmp_path}"] * 2, "yelp stands twice"),
        ([f"yelp={tmp_path}/nowhere"], "nowhere: does not exist; expected a text file"),
        (["yelp=" + "x" * 5000], "cannot be opened"),
    ):
        with pytest.raises(UserError) as caught:
            read_given(words)
        assert message in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_set_is_described_by_what_it_really_is(tmp_path):
    synthetic = prepare("synthetic", None, tmp_path / "made", queries=30, items=40, pairs=300)
    assert "synthetic data (30 users, 40 items, 300 pairs), in place of Yelp" in describe_set("yelp", synthetic)
    given = open_dataset(find_set("yelp", {"yelp": sequences(tmp_path / "Yelp.txt")}, tmp_path / "out"))
    assert describe_set("yelp", given).endswith("pairs); stands in for MovieLens20M")
    assert "synthetic" not in describe_set("yelp", given)
