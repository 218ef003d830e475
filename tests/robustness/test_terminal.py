"""Names of files, keys and columns cannot steer the terminal."""

import io
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from rich.console import Console
from rich.text import Text

from songrank.cli.printing import TextTable, echo

ESCAPE = "\x1b[31mred\x1b]0;title\x07\u202e"
SOURCE = Path(__file__).parents[2] / "src"


def call(*words, cwd):
    command = [sys.executable, "-m", "songrank", *map(str, words)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, encoding="utf-8", timeout=120)


def test_only_escape_sequences_of_python_are_printed(capsys):
    echo(f"a\tb\n{ESCAPE}")
    assert capsys.readouterr().out == "a\tb\n\\x1b[31mred\\x1b]0;title\\x07\\u202e\n"


def test_tables_print_names_as_text():
    table = TextTable(ESCAPE, "[bold]markup")
    table.add_row(ESCAPE, Text(ESCAPE))
    out = io.StringIO()
    Console(file=out, width=200, force_terminal=False).print(table)
    assert "\x1b" not in out.getvalue()
    assert "\u202e" not in out.getvalue()
    assert "[bold]markup" in out.getvalue()


@pytest.fixture
def hostile(tmp_path):
    """A recipe, a table and an archive with escape sequences in keys, column names, ids and member names."""
    recipe = f'data: x\nmodel: neumf\n"{ESCAPE.encode("unicode_escape").decode()}": 1\n'
    (tmp_path / "recipe.yaml").write_text(recipe, encoding="utf-8")
    (tmp_path / f"{ESCAPE}.csv").write_text(f"user,{ESCAPE}\n1,{ESCAPE}\n", encoding="utf-8")
    with zipfile.ZipFile(tmp_path / "ratings.zip", "w") as archive:
        archive.writestr(f"{ESCAPE}.csv", "a")
        archive.writestr("b.csv", "b")
    return tmp_path


@pytest.mark.skipif(sys.platform == "win32", reason="file names without control characters")
@pytest.mark.parametrize(
    "words",
    [
        ["train", "recipe.yaml"],
        ["train", "quick", f"{ESCAPE}=1"],
        ["train", f"{ESCAPE}.yaml"],
        ["data", "prepare", "interactions", f"{ESCAPE}.csv", "-o", "data"],
        ["data", "prepare", "interactions", "ratings.zip", "-o", "data"],
        ["data", "prepare", "movielens-1m", "ratings.zip", "-o", "data"],
        ["evaluate", ESCAPE],
        [ESCAPE],
    ],
    ids=lambda words: re.sub(r"\W+", "-", " ".join(words)),
)
def test_errors_about_hostile_names(hostile, words):
    done = call(*words, cwd=hostile)
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") >= 1
    assert all(c.isprintable() or c == "\n" for c in done.stdout + done.stderr), repr(done.stderr)


def test_the_command_prints_in_one_place():
    """Everything that is printed goes through ``echo``, ``TextTable`` or a progress bar."""
    others = re.compile(r"typer\.s?echo\(|(?<![\w.])print\(|(?<![A-Za-z])Table\(.*box=")
    for file in [*(SOURCE / "songrank" / "cli").glob("*.py"), *(SOURCE / "songrank_paper").rglob("*.py")]:
        if file.name not in ("printing.py", "help_text.py"):
            assert not others.search(file.read_text(encoding="utf-8")), file
