"""The code on the pages for people with a loop of their own runs, in order, and names what exists."""

import ast
import importlib
import importlib.util
import re
from pathlib import Path

import pytest

from songrank.losses.registry import LOSSES

ROOT = Path(__file__).parents[2]
PAGES = ("just-the-loss", "which-loss", "from-libauc", "estimators", "faster", "sequences")
OPTIONAL = {"datasets", "libauc", "lightning", "sentence_transformers", "transformers"}


def blocks(text):
    """(line, code) of each fenced block of Python."""
    for found in re.finditer(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        yield text.count("\n", 0, found.start(1)), found[1]


def packages(code):
    imports = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = [node.module if isinstance(node, ast.ImportFrom) else node.names[0].name for node in imports]
    return {name.split(".")[0] for name in names} & OPTIONAL


def run(page, line, code, names):
    exec(compile("\n" * line + code, str(page), "exec"), names)


def page_file(title):
    return ROOT / "docs" / f"{title}.md"


OPTIONAL_BLOCKS = [
    pytest.param(title, line, id=f"{title}:{line}")
    for title in PAGES
    for line, code in blocks(page_file(title).read_text())
    if packages(code)
]


@pytest.mark.parametrize("title", PAGES)
def test_the_code_on_a_page_runs_in_order(title, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names, page = {}, page_file(title)
    for line, code in blocks(page.read_text()):
        if not packages(code):
            run(page, line, code, names)
    assert names


@pytest.mark.parametrize(("title", "at"), OPTIONAL_BLOCKS)
def test_code_that_needs_another_package_runs_after_what_stands_before_it(title, at, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = page_file(title)
    before = [block for block in blocks(page.read_text()) if block[0] <= at]
    needed = packages(before[-1][1])
    for package in sorted(needed):
        pytest.importorskip(package)
    names = {"folder": save_tiny_bert(tmp_path)} if "sentence_transformers" in needed else {}
    for line, code in before:
        if packages(code) <= needed:
            run(page, line, code, names)


def save_tiny_bert(folder):
    """Where a page says ``folder``, a cross-encoder lies there."""
    spec = importlib.util.spec_from_file_location("cross_encoder", ROOT / "examples" / "cross_encoder.py")
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    for part in example.tiny_bert():
        part.save_pretrained(folder)
    return str(folder)


DOCUMENTS = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md"]


@pytest.mark.parametrize("file", DOCUMENTS, ids=lambda file: file.name)
def test_every_name_that_a_page_imports_exists(file):
    for _, code in blocks(file.read_text()):
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] == "songrank":
                module = importlib.import_module(node.module)
                for name in node.names:
                    assert hasattr(module, name.name), f"{file.name}: {node.module}.{name.name}"


@pytest.mark.parametrize("title", PAGES)
def test_a_page_points_at_files_that_are_there(title):
    page = page_file(title)
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        assert target.startswith("https://") or (page.parent / target).exists(), target


def test_the_page_on_which_loss_has_a_row_for_each():
    rows = re.findall(r"^\| `(\w+)`", page_file("which-loss").read_text(), re.MULTILINE)
    assert set(rows) == {loss.__name__ for loss in LOSSES.values()}
