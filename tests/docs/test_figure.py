"""README's figure."""

import importlib.util
import re

import pytest

from tests.docs.pages import ROOT

pytest.importorskip("matplotlib")


def test_the_figure_of_the_readme_shows_the_table_of_the_experiments():
    spec = importlib.util.spec_from_file_location("figure", ROOT / "tools" / "docs" / "figure.py")
    figure = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(figure)
    drawn = figure.draw(figure.SOURCE.read_text(encoding="utf-8"))
    kept = figure.FIGURE.read_text(encoding="utf-8")
    marks = re.compile(r'<use [^>]*x="([\d.]+)" y="([\d.]+)"')
    assert len(marks.findall(kept)) > 40
    assert marks.findall(drawn) == marks.findall(kept)
    assert "SONG" in kept
