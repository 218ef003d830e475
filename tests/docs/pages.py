"""The pages of the documentation and the code blocks on them."""

import ast
import re
import shlex
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
README = ROOT / "README.md"
OPTIONAL = {"accelerate", "datasets", "libauc", "lightning", "sentence_transformers", "transformers"}
NOT_RUN = re.compile(r"<!-- not run: (.+?) -->\n\Z")


class Block(NamedTuple):
    """A fenced block of code."""

    page: Path
    line: int
    language: str
    code: str
    not_run: str | None

    @property
    def packages(self):
        """Optional packages that a block of Python imports."""
        nodes = [node for node in ast.walk(ast.parse(self.code)) if isinstance(node, ast.Import | ast.ImportFrom)]
        names = [node.module if isinstance(node, ast.ImportFrom) else node.names[0].name for node in nodes]
        return {name.split(".")[0] for name in names} & OPTIONAL

    @property
    def commands(self):
        """The songrank commands of a shell block, each as its words."""
        lines = self.code.replace("\\\n", " ").splitlines()
        found = [re.search(r"(?:^|do |; |=1 |-m )songrank (.*)", line) for line in lines]
        return [shlex.split(re.split(r"; done|; songrank| > ", match[1])[0], comments=True) for match in found if match]

    @property
    def scripts(self):
        """The repository's scripts that a shell block runs, each as its words."""
        code = self.code.replace("\\\n", " ")
        return [shlex.split(match, comments=True) for match in re.findall(r"python (benchmarks/[^;\n]*)", code)]


def blocks(page):
    """The fenced blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(page, text.count("\n", 0, found.start(2)), found[1], found[2], _reason(text[: found.start()]))
        for found in re.finditer(r"^```(\w*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    ]


def _reason(before):
    marked = NOT_RUN.search(before)
    return marked[1] if marked else None


def title(page):
    """The page's path, for the name of a test."""
    return str(page.relative_to(ROOT).with_suffix(""))
