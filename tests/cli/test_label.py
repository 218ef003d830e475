"""Labelling texts as a user does: JSON lines, tables, plain lines, bags of words, and every way to be wrong."""

import shutil

import polars as pl

from songrank.serving.open import open_model
from tests.cli.outcomes import refused
from tests.cli.small_sets import recipe
from tests.serving.small_label_models import read


def test_a_trained_run_with_nothing_but_its_folder(songrank, tmp_path):
    words, path = recipe(tmp_path, "labelling")
    assert songrank(*words).returncode == 0
    assert songrank("train", path, "-o", tmp_path / "run", "-q").returncode == 0
    shutil.rmtree(tmp_path / "data")
    words = ["-o", tmp_path / "labels.csv", "-k", 3, "--device", "cpu"]
    done = songrank("label", tmp_path / "run", tmp_path / "source" / "test.txt", *words)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"15 texts; wrote 45 labels to {tmp_path / 'labels.csv'}\n"
    assert read(tmp_path / "labels.csv").columns == ["row", "label", "score", "rank"]


def test_names_of_labels_are_written_beside_them_as_text(songrank, tmp_path):
    words, path = recipe(tmp_path, "labelling")
    assert songrank(*words).returncode == 0
    assert songrank("train", path, "-o", tmp_path / "run", "-q").returncode == 0
    known = list(open_model(tmp_path / "run").item_ids)
    table = {"label": known[1:], "name": [f"=1+{one}\x1b[31m" for one in known[1:]]}
    pl.DataFrame(table).write_csv(tmp_path / "names.csv")
    words = ["-o", tmp_path / "labels.csv", "-k", len(known), "--device", "cpu", "--names", tmp_path / "names.csv"]
    done = songrank("label", tmp_path / "run", tmp_path / "source" / "test.txt", *words)
    assert done.returncode == 0, done.stderr
    assert f"1 of {len(known)} labels of the model have no name" in done.stderr
    found = read(tmp_path / "labels.csv")
    assert found.columns == ["row", "label", "title", "score", "rank"]
    for label, title in zip(found["label"], found["title"], strict=True):
        assert (title or None) == (None if label == known[0] else f"'=1+{label} [31m")
    refused(
        songrank("label", tmp_path / "run", "x", "-o", "y.csv", "--name-column", "n"), "--name-column needs --names"
    )
    (tmp_path / "names.csv").write_text("label,name\nnone,x\n")
    refused(
        songrank("label", tmp_path / "run", tmp_path / "source" / "test.txt", *words, "--overwrite"),
        "has a name for none of the",
    )
