"""Tutorials as notebooks: they have the text and the code of their pages, they run, and their outputs are kept."""

import importlib.util
import json

import pytest

from .pages import DOCS, ROOT

spec = importlib.util.spec_from_file_location("notebooks", ROOT / "tools" / "docs" / "notebooks.py")
notebooks = importlib.util.module_from_spec(spec)
spec.loader.exec_module(notebooks)


def read(page):
    return json.loads((DOCS / "tutorials" / f"{page}.ipynb").read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", notebooks.PAGES)
def test_a_notebook_has_the_text_and_the_code_of_its_page(page):
    found = [(cell["cell_type"], "".join(cell["source"])) for cell in read(page)["cells"]]
    expected = [(cell["cell_type"], "".join(cell["source"])) for cell in notebooks.cells(page)]
    assert found == expected, "run python tools/docs/notebooks.py"


@pytest.mark.parametrize("page", notebooks.PAGES)
def test_the_code_cells_of_a_notebook_run_and_print_where_the_kept_ones_did(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    for cell in read(page)["cells"]:
        if cell["cell_type"] == "code":
            assert bool(notebooks.run(cell, names)) == bool(cell["outputs"])


@pytest.mark.parametrize("page", notebooks.PAGES)
def test_a_notebook_is_small_and_linked_from_its_page(page):
    assert (DOCS / "tutorials" / f"{page}.ipynb").stat().st_size < 50_000
    assert f"({page}.ipynb)" in (DOCS / "tutorials" / f"{page}.md").read_text()
