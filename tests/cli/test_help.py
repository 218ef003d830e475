"""Help of commands: flowing paragraphs, verbatim examples, and panels that follow from the code."""

import re
from itertools import pairwise

import pytest

from songrank.data.registry import find_kind
from songrank.losses.registry import LOSSES
from songrank.models.registry import MODELS


@pytest.fixture
def shown(songrank, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")

    def show(*words):
        done = songrank(*words, "--help")
        assert done.returncode == 0, done.stderr
        return done.stdout

    return show


def test_training_lists_losses_models_and_main_keys(shown):
    text = shown("train")
    for name in (*LOSSES, *MODELS, "batch.queries", "fine_tuning.learning_rate", "docs/reference/recipe-keys.md"):
        assert re.search(rf"[ (]{re.escape(name)}[ ,)]", text), name
    assert "\n     songrank train movielens-1m  " in text  # examples keep their indentation


@pytest.mark.parametrize("name", ["movielens-1m", "letor", "synthetic"])
def test_the_options_of_a_kind_are_beside_the_common_ones(shown, name):
    text, kind = shown("data", "prepare", name), find_kind(name)
    for option in kind.flags():
        assert re.search(rf"--(\[no-\])?{option.replace('_', '-')} ", text), option
    assert "--overwrite" in text
    assert f"Kind {name} " in text
    assert "Kinds" in shown("data", "prepare")


def test_an_option_with_fixed_values_names_all_of_them(shown):
    text = " ".join(re.sub(r"[│\n]", " ", shown("data", "prepare", "letor")).split())
    assert "ranks (three times the features). Choices: none, z, rank, z-rank, all." in text
    assert "Random seed. Choices" not in text


@pytest.mark.parametrize("command", ["train", "tune", "compare", "report", "recommend", "ensemble", "paper"])
@pytest.mark.parametrize("columns", [80, 120])
def test_paragraphs_fill_the_width(shown, monkeypatch, command, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = shown(command).partition("╭")[0].splitlines()
    for line, after in pairwise(lines):
        first = after.split(maxsplit=1)[:1]
        if line.strip() and first and not line.startswith("  ") and not after.startswith("  "):
            assert len(line.rstrip()) + 1 + len(first[0]) > columns - 2, line
