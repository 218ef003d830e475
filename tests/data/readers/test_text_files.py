"""Which files hold the texts and labels of each split."""

import pytest

from songrank.data import DataError, prepare
from tests.data.readers.labelled import labels_of, write_files
from tests.data.readers.small_texts import LINES, texts_of, vocabulary


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


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train_labels.txt": "a\nb\n"}, "train_labels.txt: has 2 lines, but train_texts.txt has 3"),
        ({"train_labels.txt": None}, "train_texts.txt: has no file of labels; expected train_labels.txt with one line"),
        ({"test_texts.txt": None}, "has no test file"),
        ({"train_texts.txt": None, "test_texts.txt": None}, "contains no JSON lines, or text and label files"),
        ({"test_labels.txt": ""}, "test_labels.txt: is empty"),
        ({"labels.txt": "birds\ncats\npets\n"}, "train_labels.txt, line 2: label 'nothing' is not one of the 3"),
        ({"labels.txt": "birds\n\n"}, "labels.txt, line 2: has no name"),
        ({"labels.txt": "a\nb\na\n"}, "labels.txt, line 3: label 'a' is repeated from line 1"),
        ({"labels.txt": "a\n", "label_map.txt": "a\n"}, "contains 2 lists of labels: label_map.txt, labels.txt"),
        ({"train_texts.txt": b"a\nb\xff\nc\n"}, "train_texts.txt, line 2: byte 0xff is not UTF-8"),
    ],
)
def test_mistakes_in_lines_of_text_are_named(changes, message, tmp_path):
    files = {name: text for name, text in (LINES | changes).items() if text is not None}
    with pytest.raises(DataError) as error:
        prepare("xmc-text", write_files(tmp_path / "source", files), tmp_path / "set")
    assert message in str(error.value)
