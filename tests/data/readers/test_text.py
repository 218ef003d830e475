"""Raw texts and their labels."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from songrank.data import DataError, prepare
from tests.data.folders import contents, write_zip
from tests.data.readers.labelled import labels_of, write_files
from tests.data.readers.small_texts import LINES, PUBLISHED_FILES, few, lines, read, texts_of, vocabulary


def test_labels_of_all_files_make_the_catalogue(tmp_path):
    dataset = read(tmp_path)
    assert list(dataset.item_ids) == ["birds", "cats", "pets"]
    assert labels_of(dataset, "train") == {0: ["cats", "pets"], 1: ["pets"], 2: []}
    assert labels_of(dataset, "test") == {0: ["birds"]}


def test_held_out_texts_leave_no_trace_in_what_training_sees(tmp_path):
    train = [{"text": f"w{n} common w{n % 7}", "labels": [n % 3]} for n in range(40)]
    first = read(tmp_path, train, [{"text": "w1", "labels": [2]}], "a", validation=0.25, min_count=2, vocabulary_size=9)
    held_out = set(first.split_query_ids("validation"))
    changed = [row | {"text": "zebra " * 99 + "w3"} if n in held_out else row for n, row in enumerate(train)]
    tests = [{"text": "zebra common", "labels": [2]}] * 50
    second = read(tmp_path, changed, tests, "b", validation=0.25, min_count=2, vocabulary_size=9)
    files = [contents(dataset.path) for dataset in (first, second)]
    for name in ("vocabulary.txt", "train.safetensors"):
        assert files[0][name] == files[1][name]
    assert files[0]["validation.safetensors"] != files[1]["validation.safetensors"]
    assert len(held_out) == 10


def test_a_random_split_learns_words_from_its_training_rows_only(tmp_path):
    rows = [{"text": f"only{n}", "labels": [0]} for n in range(30)]
    file = write_files(tmp_path, {"all.jsonl": lines(rows)}) / "all.jsonl"
    dataset = prepare("xmc-text", file, tmp_path / "set", test=0.5)
    assert set(vocabulary(dataset)) == {f"only{n}" for n in dataset.split_query_ids("train")}
    assert dataset["test"].tokens.unique().tolist() == [1]


def test_two_runs_give_the_same_bytes(tmp_path):
    first, second = (read(tmp_path, name=name, split="random", validation=0.25, test=0.25) for name in "ab")
    assert contents(first.path) == contents(second.path)
    assert set(contents(first.path)) >= {"vocabulary.txt", "dataset.json", "train.safetensors"}


def test_compressed_files_in_an_archive_are_unpacked(tmp_path):
    archive = write_zip(tmp_path / "lf.zip", {f"LF/{name}": data for name, data in PUBLISHED_FILES.items()})
    assert prepare("xmc-text", archive, tmp_path / "set").num_queries == 4


def test_ids_that_are_numbers_order_the_rows(tmp_path):
    rows = [{"id": number, "text": f"row {max(number, 0) or ''}", "labels": [0]} for number in (10, -3, 9)]
    dataset = read(tmp_path, rows, [{"id": 9, "text": "", "labels": [0]}])
    assert list(dataset.split_query_ids("train")) == [-3, 9, 10]
    assert texts_of(dataset, "train") == ["row -", "row 9", "row 10"]


def test_a_list_of_labels_names_them_and_counts_those_that_never_occur(tmp_path):
    files = {"train.json": lines([{"text": "x", "labels": [2]}, {"text": "y", "labels": [0]}])}
    files["test.json"] = lines([{"text": "x", "labels": [0]}])
    named = write_files(tmp_path / "a", {**files, "labels.txt": "zoo\nnever here\nant\n"})
    dataset = prepare("xmc-text", named, tmp_path / "set-a")
    assert list(dataset.item_ids) == ["ant", "never here", "zoo"]
    assert labels_of(dataset, "train") == {0: ["ant"], 1: ["zoo"]}
    listed = [{"uid": "u9", "title": "x"}, {"uid": "u8", "title": "x"}, {"uid": "u7", "title": "x"}]
    dataset = prepare("xmc-text", write_files(tmp_path / "b", {**files, "lbl.json": lines(listed)}), tmp_path / "set-b")
    assert labels_of(dataset, "train") == {0: ["u7"], 1: ["u9"]}


def test_one_pair_of_files_is_split_at_random(tmp_path):
    files = {"texts.txt": "x\n" * 10, "labels.txt": "a\n" * 10}
    dataset = prepare("xmc-text", write_files(tmp_path / "source", files), tmp_path / "set")
    assert [dataset[split].num_queries for split in dataset] == [8, 1, 1]


def test_other_encodings_are_read_when_named(tmp_path):
    files = {name: text.encode("latin-1") for name, text in (LINES | {"test_texts.txt": "caf\xe9"}).items()}
    source = write_files(tmp_path / "source", files | {"train_texts.txt": "caf\xe9\nb\nc\n".encode("latin-1")})
    with pytest.raises(DataError, match="line 1: byte 0xe9 is not UTF-8"):
        prepare("xmc-text", source, tmp_path / "set")
    assert "café" in vocabulary(prepare("xmc-text", source, tmp_path / "set", encoding="latin-1"))


def test_ids_must_differ_within_a_split(tmp_path):
    rows = [{"id": "a", "text": "x", "labels": [1]}, {"id": "a", "text": "y", "labels": [1]}]
    with pytest.raises(DataError, match=r"line 2: id 'a' is repeated from line 1 of .*train.jsonl"):
        read(tmp_path, rows, rows[:1])
    with pytest.raises(DataError, match=r"test.jsonl, line 1: id 'a' is repeated from line 1 of .*train.jsonl"):
        read(tmp_path, rows[:1], rows[1:], split="random")


def test_numbers_beyond_the_list_of_labels_are_refused(tmp_path):
    files = LINES | {"train_labels.txt": "0\n3\n\n", "test_labels.txt": "1\n", "label_names.txt": "a\nb\n"}
    with pytest.raises(DataError, match="train_labels.txt, line 2: label '3' is not one of the 2"):
        prepare("xmc-text", write_files(tmp_path / "source", files), tmp_path / "set")


JSON = st.sampled_from([None, True, 3, -1, 2.5, float("inf"), "a", "", [], [1], ["b", "a"], [2, "a"], [[1]], {"a": 1}])

KEYS = st.sampled_from(["text", "title", "content", "labels", "target_ind", "target_rel", "uid", "id"])

OBJECTS = st.dictionaries(KEYS, JSON, max_size=5)


@few
@given(st.one_of(st.binary(max_size=60), st.lists(OBJECTS, max_size=4).map(lambda rows: lines(rows).encode())))
def test_any_bytes_are_texts_or_a_data_error(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("fuzz")
    (folder / "x.jsonl").write_bytes(data)
    try:
        prepare("xmc-text", folder / "x.jsonl", folder / "set")
    except DataError as error:
        assert "\n" not in str(error)
