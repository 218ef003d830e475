"""Raw texts and their labels."""

import gzip
import json
import tracemalloc
import unicodedata

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from songrank.data import DataError, prepare
from songrank.data.preparation.vocabulary import tokenise
from tests.data.folders import contents, write_zip
from tests.data.readers.labelled import labels_of, write_files

few = settings(derandomize=True, max_examples=60, deadline=None)

TRAIN = [
    {"text": "The cat, the CAT!", "labels": ["pets", "cats"]},
    {"text": "A dog", "labels": ["pets"]},
    {"text": "", "labels": []},
]
TEST = [{"text": "the bird and the dog and more", "labels": ["birds"]}]


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def read(folder, train_rows=TRAIN, test_rows=TEST, name="set", **options):
    source = write_files(folder / f"{name}-source", {"train.jsonl": lines(train_rows), "test.jsonl": lines(test_rows)})
    return prepare("xmc-text", source, folder / name, **options)


def vocabulary(dataset):
    return (dataset.path / "vocabulary.txt").read_text(encoding="utf-8").splitlines()


def texts_of(dataset, split):
    """The words of each row, as the model sees them."""
    known = {0: "-", 1: "?", **dict(enumerate(vocabulary(dataset), 2))}
    return [" ".join(known[token] for token in row) for row in dataset[split].tokens.tolist()]


def test_words_are_numbered_by_how_often_training_texts_have_them(tmp_path):
    dataset = read(tmp_path)
    assert vocabulary(dataset) == ["cat", "the", "a", "dog"]
    assert dataset["train"].tokens.tolist() == [[3, 2, 3, 2], [4, 5, 0, 0], [0, 0, 0, 0]]
    assert dataset["train"].lengths.tolist() == [4, 2, 0]
    assert texts_of(dataset, "test") == ["the ? ? the"]
    assert dataset["test"].lengths.tolist() == [4]
    assert dataset.info["vocabulary"] == {
        "size": 6,
        "padding": 0,
        "unknown": 1,
        "file": "vocabulary.txt",
        "lowercase": True,
    }


def test_labels_of_all_files_make_the_catalogue(tmp_path):
    dataset = read(tmp_path)
    assert list(dataset.item_ids) == ["birds", "cats", "pets"]
    assert labels_of(dataset, "train") == {0: ["cats", "pets"], 1: ["pets"], 2: []}
    assert labels_of(dataset, "test") == {0: ["birds"]}


def test_texts_and_vocabulary_are_cut_where_the_options_say(tmp_path):
    assert texts_of(read(tmp_path, name="a", max_tokens=3), "train") == ["the cat the", "a dog -", "- - -"]
    assert vocabulary(read(tmp_path, name="b", vocabulary_size=1)) == ["cat"]
    assert texts_of(read(tmp_path, name="c", min_count=2), "train")[1] == "? ? - -"
    assert vocabulary(read(tmp_path, name="d", lowercase=False)) == ["A", "CAT", "The", "cat", "dog", "the"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x_1-y 3.5%", ["x", "1", "y", "3", "5"]),
        ("Ünïcode СЛОВО 東京2020", ["ünïcode", "слово", "東京2020"]),
        ("cafe\u0301 don't", ["café", "don", "t"]),
        (" \n\t…!?", []),
        ("\ud800lone", ["lone"]),
        ("हिन्दी भाषा, தமிழ்", ["हिन्दी", "भाषा", "தமிழ்"]),
        ("İstanbul IŞIK", ["istanbul", "işik"]),
        ("x\u0323\u0304y z\u0336", ["x\u0323\u0304y", "z\u0336"]),
        ("\u0301alone \u2764\ufe0f", ["alone"]),
    ],
)
def test_a_word_is_a_run_of_letters_and_digits(text, words):
    assert tokenise(text) == words


@few
@given(st.text(max_size=20), st.integers(0, 4))
def test_words_hold_letters_digits_and_marks_alone(text, most):
    words = tokenise(text)
    assert {unicodedata.category(char)[0] for word in words for char in word} <= set("LNM")
    kept = "".join(char for char in "".join(tokenise(text, lowercase=False)) if char.isalnum())
    assert kept == "".join(char for char in unicodedata.normalize("NFC", text) if char.isalnum())
    assert tokenise(text, most=most) == words[:most]


def test_only_so_many_words_are_made_as_are_kept():
    tracemalloc.start()
    assert tokenise("a b " * 500_000, most=3) == ["a", "b", "a"]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20_000_000  # the text thrice, but no million words


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (
            "one word",
            {"min_count": 3},
            "no word occurs 3 times in the texts for training; choose a min_count of at most 1",
        ),
        ("?! …", {}, "no text for training has a word; expected letters or digits"),
    ],
)
def test_a_vocabulary_without_words_is_refused(text, options, message, tmp_path):
    with pytest.raises(DataError, match=message):
        read(tmp_path, [{"text": text, "labels": ["a"]}], **options)


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


PUBLISHED = [
    {"uid": "B7", "title": "Zoo", "content": "of animals", "target_ind": [2, 0], "target_rel": [0.5, 1.0]},
    {"uid": "A1", "title": "Ant", "content": "", "target_ind": [1]},
    {"uid": "C0", "title": "None", "content": None, "target_ind": [2, 1], "target_rel": [0, 1]},
]
PUBLISHED_FILES = {
    "trn.json.gz": gzip.compress(lines(PUBLISHED).encode()),
    "tst.json.gz": gzip.compress(lines([{"uid": "A1", "title": "", "target_ind": [0]}]).encode()),
    "filter_labels_test.txt": "0 0\n",
}


def test_published_json_lines_have_ids_titles_and_graded_targets(tmp_path):
    dataset = prepare("xmc-text", write_files(tmp_path / "LF", PUBLISHED_FILES), tmp_path / "set")
    assert list(dataset.item_ids) == [0, 1, 2]
    assert labels_of(dataset, "train") == {"A1": [1], "B7": [0, 2], "C0": [1]}
    assert dataset["train"].label.tolist() == [1.0, 1.0, 0.5, 1.0]
    assert texts_of(dataset, "train") == ["ant - -", "zoo of animals", "none - -"]
    assert list(dataset.split_query_ids("test")) == ["A1"]
    assert dataset.info["made"]["left_out"] == {"labels of relevance 0": 1}


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


LINES = {
    "train_texts.txt": "A cat\n\nthe dog\n",
    "train_labels.txt": "pets cats\nnothing\n\n",
    "test_texts.txt": "a bird",
    "test_labels.txt": "birds\n",
}


def test_texts_and_labels_in_separate_files_go_line_by_line(tmp_path):
    dataset = prepare("xmc-text", write_files(tmp_path / "source", LINES), tmp_path / "set")
    assert labels_of(dataset, "train") == {0: ["cats", "pets"], 1: ["nothing"], 2: []}
    assert texts_of(dataset, "train") == ["a cat", "- -", "the dog"]
    assert labels_of(dataset, "test") == {0: ["birds"]}


def test_untouched_texts_are_preferred_and_numbers_stay_numbers(tmp_path):
    files = {
        **LINES,
        "train_raw_texts.txt": "raw one\nraw two\nraw three\n",
        "test_raw_texts.txt": "raw\n",
        "train_labels.txt": "5 0\n2\n\n",
        "test_labels.txt": "1\n",
    }
    dataset = prepare("xmc-text", write_files(tmp_path / "source", files), tmp_path / "set")
    assert vocabulary(dataset)[0] == "raw"
    assert list(dataset.item_ids) == [0, 1, 2, 3, 4, 5]
    assert labels_of(dataset, "train") == {0: [0, 5], 1: [2], 2: []}


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


GOOD = '{"text": "x", "labels": ["a"]}'


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "is not JSON (Expecting property name"),
        ("hello", "is not JSON"),
        ("[1, 2]", "is a list; expected one JSON object a line"),
        ("3", "is 3; expected one JSON object"),
        ("[" * 100_000, "is JSON that cannot be read"),
        (f'{{"text": "x", "labels": [{"9" * 5000}]}}', "is JSON that cannot be read"),
        ('{"labels": ["a"]}', "has no text, only ['labels']"),
        ('{"text": null, "labels": ["a"]}', "has no text"),
        ('{"text": 5, "labels": ["a"]}', "the text is 5; expected a text under 'text'"),
        ('{"title": "a", "content": ["b"], "labels": ["a"]}', "the text is a list"),
        ('{"text": "x"}', "has no labels, only ['text']"),
        ('{"text": "x", "labels": "a"}', "labels is 'a'; expected a list"),
        ('{"text": "x", "labels": null}', "labels is None"),
        ('{"text": "x", "labels": {"a": 1}}', "labels is an object"),
        ('{"text": "x", "labels": [true]}', "labels holds True"),
        ('{"text": "x", "labels": [1.0]}', "labels holds 1.0"),
        ('{"text": "x", "labels": [""]}', "labels holds ''"),
        ('{"text": "x", "labels": [["a"]]}', "labels holds a list"),
        ('{"text": "x", "labels": ["\\ud800"]}', "is not valid Unicode"),
        ('{"text": "x", "labels": [1]}', "label is 1, but 'a' before it"),
        ('{"text": "x", "labels": ["a"], "target_rel": 1}', "target_rel is 1"),
        ('{"text": "x", "labels": ["a"], "target_rel": [1, 2]}', "target_rel has 2 numbers for 1 labels"),
        ('{"text": "x", "labels": ["a"], "target_rel": [-1]}', "target_rel holds -1"),
        ('{"text": "x", "labels": ["a"], "target_rel": [NaN]}', "target_rel holds nan"),
        ('{"text": "x", "labels": ["a"], "target_rel": [1e300]}', "target_rel holds 1e+300"),
        ('{"text": "x", "labels": ["a"], "id": 1.5}', "its id is 1.5"),
        ('{"text": "x", "labels": ["a"], "id": "b"}', "its id is 'b', but that of the first row is None"),
    ],
)
def test_mistakes_in_json_lines_are_named_with_their_line(line, message, tmp_path):
    file = write_files(tmp_path, {"x.jsonl": f"{GOOD}\n\n{GOOD}\n{line}\n"}) / "x.jsonl"
    with pytest.raises(DataError) as error:
        prepare("xmc-text", file, tmp_path / "set")
    assert message in str(error.value)
    assert (error.value.file, error.value.line) == (str(file), 4)


@pytest.mark.parametrize("number", [-1, 2**27, 2**70])
def test_label_numbers_that_no_catalogue_has_are_refused(number, tmp_path):
    with pytest.raises(DataError, match=f"line 2: label is {number}; expected a number from 0"):
        read(tmp_path, [{"text": "x", "labels": [1]}, {"text": "x", "labels": [number]}], [{"text": "", "labels": []}])


def test_ids_must_differ_within_a_split(tmp_path):
    rows = [{"id": "a", "text": "x", "labels": [1]}, {"id": "a", "text": "y", "labels": [1]}]
    with pytest.raises(DataError, match=r"line 2: id 'a' is in line 1 of .*train.jsonl already"):
        read(tmp_path, rows, rows[:1])
    with pytest.raises(DataError, match=r"test.jsonl, line 1: id 'a' is in line 1 of .*train.jsonl already"):
        read(tmp_path, rows[:1], rows[1:], split="random")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train_labels.txt": "a\nb\n"}, "train_labels.txt: has 2 lines, but train_texts.txt has 3"),
        ({"train_labels.txt": None}, "train_texts.txt: has no labels; expected train_labels.txt next to it"),
        ({"test_texts.txt": None}, "has no test file"),
        ({"train_texts.txt": None, "test_texts.txt": None}, "holds no JSON lines, and no text and label files"),
        ({"test_labels.txt": ""}, "test_labels.txt: is empty"),
        ({"labels.txt": "birds\ncats\npets\n"}, "train_labels.txt, line 2: label 'nothing' is not one of the 3"),
        ({"labels.txt": "birds\n\n"}, "labels.txt, line 2: has no name"),
        ({"labels.txt": "a\nb\na\n"}, "labels.txt, line 3: label 'a' is in line 1 already"),
        ({"labels.txt": "a\n", "label_map.txt": "a\n"}, "holds 2 lists of labels: label_map.txt, labels.txt"),
        ({"train_texts.txt": b"a\nb\xff\nc\n"}, "train_texts.txt, line 2: byte 0xff is not UTF-8"),
    ],
)
def test_mistakes_in_lines_of_text_are_named(changes, message, tmp_path):
    files = {name: text for name, text in (LINES | changes).items() if text is not None}
    with pytest.raises(DataError) as error:
        prepare("xmc-text", write_files(tmp_path / "source", files), tmp_path / "set")
    assert message in str(error.value)


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


@few
@given(st.lists(st.tuples(st.text(max_size=9), st.lists(st.sampled_from("abcd"), max_size=3)), min_size=3, max_size=12))
def test_tokens_lengths_and_labels_say_what_the_rows_say(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("rows")
    rows.append(("some words", ["a"]))
    train = [{"text": text, "labels": labels} for text, labels in rows]
    dataset = read(folder, train, train[-1:], max_tokens=4)
    part = dataset["train"]
    assert part.tokens.dtype == part.lengths.dtype == part.item.dtype
    words = [tokenise(text)[:4] for text, _ in rows]
    assert part.lengths.tolist() == [len(row) for row in words]
    assert texts_of(dataset, "train") == [" ".join(row + ["-"] * (part.tokens.shape[1] - len(row))) for row in words]
    assert labels_of(dataset, "train") == {n: sorted(set(labels)) for n, (_, labels) in enumerate(rows)}
    assert np.all(part.label.numpy() == 1)
