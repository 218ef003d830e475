"""Write tutorials as notebooks with outputs: ``python tools/docs/notebooks.py`` after a tutorial has changed.

A notebook has the text and the code of its page, so that there is one source; ``tests/docs/test_notebooks.py`` checks
that.
"""

import ast
import contextlib
import io
import json
import os
import re
import tempfile
from pathlib import Path
from typing import Any

TUTORIALS = Path(__file__).parents[2] / "docs" / "tutorials"
PAGES = ("own-loop", "rank-documents")
_CODE = re.compile(r"^```python\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!https?:)([^)#]+)\.md")
_OWN = re.compile(r"This tutorial is also a\s+\[notebook with outputs\]\([^)]*\)\.\s*")


def cells(page: str) -> list[dict[str, Any]]:
    """The cells of a page, without outputs."""
    text = (TUTORIALS / f"{page}.md").read_text(encoding="utf-8")
    text = _LINK.sub(r"](\1.html", _OWN.sub("", text))
    found: list[dict[str, Any]] = []
    end = 0
    for match in _CODE.finditer(text):
        found += [*_text(text[end : match.start()]), _code(match[1])]
        end = match.end()
    return [{**cell, "id": f"cell-{number}"} for number, cell in enumerate([*found, *_text(text[end:])])]


def _text(source: str) -> list[dict[str, Any]]:
    source = source.strip()
    return [{"cell_type": "markdown", "metadata": {}, "source": source.splitlines(keepends=True)}] if source else []


def _code(source: str) -> dict[str, Any]:
    lines = source.strip().splitlines(keepends=True)
    return {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": lines}


def run(cell: dict[str, Any], names: dict[str, Any]) -> str:
    """Run a code cell; what it prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.parse("".join(cell["source"])), cell["id"], "exec"), names)
    return printed.getvalue()


def notebook(page: str) -> dict[str, Any]:
    """The notebook of a page, run from top to bottom in an empty folder."""
    names: dict[str, Any] = {"__name__": "__main__"}
    here, made = Path.cwd(), cells(page)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for count, cell in enumerate((cell for cell in made if cell["cell_type"] == "code"), 1):
                cell["execution_count"] = count
                printed = run(cell, names)
                if printed:
                    lines = printed.splitlines(keepends=True)
                    cell["outputs"] = [{"name": "stdout", "output_type": "stream", "text": lines}]
        finally:
            os.chdir(here)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return {"cells": made, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


if __name__ == "__main__":
    for name in PAGES:
        text = json.dumps(notebook(name), indent=1, ensure_ascii=False) + "\n"
        (TUTORIALS / f"{name}.ipynb").write_text(text, encoding="utf-8")
        print(f"wrote {name}.ipynb")
