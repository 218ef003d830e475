"""The check of words finds what it should, where it should, and leaves good English alone."""

import importlib.util
import subprocess
import sys

import pytest

from .pages import ROOT

TOOL = ROOT / "tools" / "check_words.py"
spec = importlib.util.spec_from_file_location("check_words", TOOL)
check_words = importlib.util.module_from_spec(spec)
spec.loader.exec_module(check_words)

BAD = {
    "Compare it with a yardstick.": "baseline",
    "Rehearsals judge a setting by the past.": "backtest",
    "It can be gone on with.": "resume",
    "The run goes on with the next epoch.": "resume",
    "All items that the user has not met yet.": "seen items",
    "An answer for strangers.": "new (cold-start) users",
    "what a user turned to last": "interacted with",
    "The loss is no number any more.": "NaN",
    "Memory was not enough.": "out of memory",
    "The plain way is taken.": "eager fallback",
    "A moving mean of weights.": "EMA",
    "The session is made anew.": "regenerated",
    "runs/x: is no folder": "is not a directory",
    "gama is no option of song": "unknown",
    "A wrong value is refused by name.": "raises",
    "Keep so many items.": "the number of",
    "Anybody is answered.": "a user",
    "some 20 kernels": "about N",
    "how many items a user gets": "per",
    "300 floats a query": "per",
    "by more than chance": "significant",
    "three SONG as one": "ensemble",
    "a start for your own data": "default recipe",
    "there is one already": "already exists",
}
GOOD = (
    "Train a baseline, then resume the run.",
    "The user's seen items are excluded for new users.",
    "One float per relevant pair; 12 items per user.",
    "Some models need pairs and a query.",
    "At test time a user's input holds the validation item.",
    "The option is not given: the default recipe is used.",
    "Checkpoints and EMA of weights.",
    "Choose items and a query, or rows or a user.",
    "The file already exists; pass --overwrite to replace it.",
)


@pytest.mark.parametrize(("text", "advice"), BAD.items())
def test_a_bad_sentence_is_found_with_what_to_write(text, advice):
    assert any(advice in found for _, _, found in check_words.found_in(text))


@pytest.mark.parametrize("text", GOOD)
def test_a_good_sentence_is_left_alone(text):
    assert list(check_words.found_in(text)) == []


def test_a_word_that_is_divided_by_a_line_end_is_found_on_the_line_where_it_begins():
    found = list(check_words.found_in("# Title\n\n- the loss is no\n  number any more"))
    assert [(line, word) for line, word, _ in found] == [(3, "is no number any more")]


PYTHON = '''"""A yardstick."""

def public():
    """Seen by strangers."""
    # a strangers' comment is not read
    raise ValueError(f"{1}: is no folder; expected another")

def _private():
    """Strangers."""
    return "yardstick"
'''


def test_of_python_public_docstrings_and_sentences_are_read(tmp_path):
    (tmp_path / "module.py").write_text(PYTHON)
    (tmp_path / "page.md").write_text("Good.\nA yardstick.\n")
    done = subprocess.run([sys.executable, TOOL, tmp_path], capture_output=True, text=True)
    assert done.returncode == 1
    lines = [line.removeprefix(f"{tmp_path}/") for line in done.stdout.splitlines()]
    assert lines == [
        "module.py:1: 'yardstick': write baseline",
        "module.py:4: 'strangers': write new (cold-start) users",
        "module.py:6: 'is no folder': write is not a directory",
        "page.md:2: 'yardstick': write baseline",
    ]


def test_a_path_that_does_not_exist_is_an_error(tmp_path):
    done = subprocess.run([sys.executable, TOOL, tmp_path / "none"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "does not exist" in done.stderr


def test_the_texts_that_are_checked_by_default_are_clean():
    done = subprocess.run([sys.executable, TOOL], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
