"""Labelling texts as a user does: JSON lines, tables, plain lines, bags of words, and every way to be wrong."""

import shutil

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
