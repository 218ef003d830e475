"""Texts with labels as JSON lines."""

import pytest

from songrank.data import DataError, prepare
from tests.data.readers.labelled import labels_of, write_files
from tests.data.readers.small_texts import PUBLISHED_FILES, read, texts_of


def test_published_json_lines_have_ids_titles_and_graded_targets(tmp_path):
    dataset = prepare("xmc-text", write_files(tmp_path / "LF", PUBLISHED_FILES), tmp_path / "set")
    assert list(dataset.item_ids) == [0, 1, 2]
    assert labels_of(dataset, "train") == {"A1": [1], "B7": [0, 2], "C0": [1]}
    assert dataset["train"].label.tolist() == [1.0, 1.0, 0.5, 1.0]
    assert texts_of(dataset, "train") == ["ant - -", "zoo of animals", "none - -"]
    assert list(dataset.split_query_ids("test")) == ["A1"]
    assert dataset.info["made"]["left_out"] == {"labels of relevance 0": 1}


GOOD = '{"text": "x", "labels": ["a"]}'


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "is not valid JSON (Expecting property name"),
        ("hello", "is not valid JSON"),
        ("[1, 2]", "line is a list; expected one JSON object per line"),
        ("3", "is 3; expected one JSON object"),
        ("[" * 100_000, "is JSON that cannot be parsed"),
        (f'{{"text": "x", "labels": [{"9" * 5000}]}}', "is JSON that cannot be parsed"),
        ('{"labels": ["a"]}', "has no text; keys are ['labels']"),
        ('{"text": null, "labels": ["a"]}', "has no text"),
        ('{"text": 5, "labels": ["a"]}', "text is 5; expected a string in 'text'"),
        ('{"title": "a", "content": ["b"], "labels": ["a"]}', "text is a list"),
        ('{"text": "x"}', "has no labels; keys are ['text']"),
        ('{"text": "x", "labels": "a"}', "labels is 'a'; expected a list"),
        ('{"text": "x", "labels": null}', "labels is None"),
        ('{"text": "x", "labels": {"a": 1}}', "labels is an object"),
        ('{"text": "x", "labels": [true]}', "labels contains True"),
        ('{"text": "x", "labels": [1.0]}', "labels contains 1.0"),
        ('{"text": "x", "labels": [""]}', "labels contains ''"),
        ('{"text": "x", "labels": [["a"]]}', "labels contains a list"),
        ('{"text": "x", "labels": ["\\ud800"]}', "is not valid Unicode"),
        ('{"text": "x", "labels": [1]}', "label is 1, but an earlier one is 'a'"),
        ('{"text": "x", "labels": ["a"], "target_rel": 1}', "target_rel is 1"),
        ('{"text": "x", "labels": ["a"], "target_rel": [1, 2]}', "target_rel has 2 numbers for 1 labels"),
        ('{"text": "x", "labels": ["a"], "target_rel": [-1]}', "target_rel contains -1"),
        ('{"text": "x", "labels": ["a"], "target_rel": [NaN]}', "target_rel contains nan"),
        ('{"text": "x", "labels": ["a"], "target_rel": [1e300]}', "target_rel contains 1e+300"),
        ('{"text": "x", "labels": ["a"], "id": 1.5}', "id is 1.5"),
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
