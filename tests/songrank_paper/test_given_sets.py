"""Data sets that the user gives or that are generated."""

import zipfile

import pytest

from songrank.core.errors import DataError, UserError
from songrank.data import open_dataset, prepare
from songrank.training.run_directory import fingerprint
from songrank_paper.data_sets import SETS
from songrank_paper.given_sets import DataSets, find_set, read_given
from tests.songrank_paper.raw_files import movielens_20m, mslr
from tests.songrank_paper.small_sets import PAPER, sequences


@pytest.mark.parametrize("quick", [False, True])
def test_where_nothing_is_given_each_task_has_synthetic_sets_of_the_paper(tmp_path, quick):
    names = [name for some in PAPER.values() for name in (some[:1] if quick else some)]
    assert list(DataSets({}, tmp_path, quick=quick)) == [*names, "ir-health"]


def test_what_is_given_takes_the_place_of_all_synthetic_sets_of_its_task(tmp_path):
    sets = DataSets({"bibtex": tmp_path, "mq2008": tmp_path}, tmp_path)
    assert list(sets) == [*PAPER["recommendation"], "mq2008", "bibtex", "ir-health"]
    assert "eurlex-4k" not in sets
    with pytest.raises(KeyError):
        sets["eurlex-4k"]


def test_sets_of_a_benchmark_and_of_a_task_do_not_replace_each_other(tmp_path):
    assert next(iter(DataSets({"ir-gowalla": tmp_path}, tmp_path, quick=True))) == "movielens-20m"
    assert "ir-health" not in DataSets({"ir-gowalla": tmp_path}, tmp_path)
    assert "ir-health" in DataSets({"movielens-1m": tmp_path}, tmp_path)


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
    with pytest.raises(DataError, match="is a recommendation data set; expected search data for mq2008"):
        find_set("mq2008", {"mq2008": tmp_path / "mine"}, tmp_path / "out")


def test_a_prepared_set_of_the_user_is_not_replaced(tmp_path):
    prepare("synthetic", None, tmp_path / "data" / "yelp", queries=30, items=40, pairs=300)
    before = fingerprint(open_dataset(tmp_path / "data" / "yelp"))
    raw = sequences(tmp_path / "Yelp.txt")
    with pytest.raises(DataError, match="yelp: already exists and was not made by `songrank paper`; choose another"):
        find_set("yelp", {"yelp": raw}, tmp_path)
    assert fingerprint(open_dataset(tmp_path / "data" / "yelp")) == before
    (tmp_path / "out" / "data").mkdir(parents=True)
    (tmp_path / "out" / "data" / "yelp.json").write_text('{"mine": 1}')
    with pytest.raises(DataError, match="yelp.json: already exists and was not made by"):
        find_set("yelp", {"yelp": raw}, tmp_path / "out")
    assert (tmp_path / "out" / "data" / "yelp.json").read_text() == '{"mine": 1}'


def test_a_set_whose_preparation_was_cut_short_is_prepared_again(tmp_path, monkeypatch):
    raw = sequences(tmp_path / "Yelp.txt")

    def cut(*args, **options):
        prepare(*args, **options)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("songrank_paper.given_sets.prepare", cut)
        with pytest.raises(KeyboardInterrupt):
            find_set("yelp", {"yelp": raw}, tmp_path / "out")
    assert open_dataset(find_set("yelp", {"yelp": raw}, tmp_path / "out")).num_queries == 12


def test_a_set_of_another_kind_is_refused(tmp_path):
    raw = sequences(tmp_path / "Yelp.txt")
    prepare("sequences", raw, tmp_path / "mine")
    assert find_set("yelp", {"yelp": tmp_path / "mine"}, tmp_path / "out") == tmp_path / "mine"
    with pytest.raises(DataError, match="was prepared as sequences; expected movielens-20m for movielens-20m"):
        find_set("movielens-20m", {"movielens-20m": tmp_path / "mine"}, tmp_path / "out")


def test_bags_of_words_are_refused_where_texts_are_expected(tmp_path):
    options = {"queries": 90, "items": 20, "pairs": 200, "features": 40, "words": 8}
    prepare("synthetic", None, tmp_path / "bags", task="labelling", **options)
    with pytest.raises(DataError, match="contains bags of words; expected texts for eurlex-4k-text"):
        find_set("eurlex-4k-text", {"eurlex-4k-text": tmp_path / "bags"}, tmp_path / "out")


def test_an_archive_that_is_damaged_is_said_in_one_line(tmp_path):
    with zipfile.ZipFile(tmp_path / "some.zip", "w") as archive:
        archive.write(sequences(tmp_path / "Yelp.txt"), "Yelp.txt")
    whole = (tmp_path / "some.zip").read_bytes()
    (tmp_path / "some.zip").write_bytes(whole.replace(b"PK\x01\x02", b"PK\x09\x09"))
    assert zipfile.is_zipfile(tmp_path / "some.zip")
    with pytest.raises(DataError, match="some.zip: is truncated or damaged"):
        find_set("yelp", {"yelp": tmp_path / "some.zip"}, tmp_path / "out")


def test_texts_cannot_be_made_up(tmp_path):
    with pytest.raises(UserError, match="no synthetic form of eurlex-4k-text; pass --data eurlex-4k-text=PATH"):
        find_set("eurlex-4k-text", {}, tmp_path)


def test_words_of_the_command_line_are_checked(tmp_path):
    (tmp_path / "a=b.zip").write_text("")
    assert read_given([f"yelp={tmp_path / 'a=b.zip'}"]) == {"yelp": tmp_path / "a=b.zip"}
    (tmp_path / "file").write_text("")
    assert read_given([f"yelp={tmp_path}/file/Yelp.txt"])  # into an archive, which preparing will look at
    for words, message in (
        (["yelp"], "--data is 'yelp'; expected NAME=PATH"),
        (["yelp="], "expected NAME=PATH"),
        (["movielens-1=x"], "unknown data set 'movielens-1'; did you mean movielens-1m?"),
        (["zzz=x"], "unknown data set 'zzz'; expected one of movielens-20m, netflix"),
        ([f"yelp={tmp_path}"] * 2, "yelp is given twice"),
        ([f"yelp={tmp_path}/nowhere"], "nowhere: does not exist; expected a text file"),
        (["yelp=" + "x" * 5000], "cannot be opened"),
    ):
        with pytest.raises(UserError) as caught:
            read_given(words)
        assert message in str(caught.value)
        assert "\n" not in str(caught.value)
