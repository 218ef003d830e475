"""Commands of plug-ins: listed, loaded when asked for, and harmless to the others when they are broken or missing."""

import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest

from songrank.cli import plugins

MARKED = "import typer\n\ndef marked(count: int = 1) -> None:\n    'Print marks.'\n    typer.echo('x' * count)\n"


@pytest.fixture
def installed(monkeypatch, tmp_path):
    """Pretend that these plug-ins are installed, by name and object."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "marking_plugin.py").write_text(MARKED)

    def install(**commands):
        found = [EntryPoint(name, value, plugins.GROUP) for name, value in commands.items()]
        monkeypatch.setattr(plugins, "entry_points", lambda group: found if group == plugins.GROUP else [])

    return install


def test_the_paper_is_listed_and_found_through_its_entry_point(songrank):
    assert "\u2502 paper " in songrank("--help").stdout
    assert songrank("paper").returncode == 0


def test_without_the_plug_in_one_line_says_how_to_get_it(songrank, installed):
    installed()
    for words in (["paper"], ["paper", "all", "--quick", "-o", "here"]):
        answer = songrank(*words)
        assert (answer.returncode, answer.stdout) == (2, "")
        assert answer.stderr == (
            'error: the command paper needs the package songrank_paper: pip install "songrank[paper]"\n'
        )
    assert "\u2502 paper " not in songrank("--help").stdout


def test_any_package_can_add_a_command(songrank, installed):
    installed(marked="marking_plugin:marked")
    assert "Print marks." in songrank("--help").stdout
    assert songrank("marked", "--count", "3").stdout == "xxx\n"
    assert "Did you mean 'marked'" in songrank("market").stderr


def test_a_broken_plug_in_does_not_affect_other_commands(songrank, installed):
    installed(broken="no_such_module:command", marked="marking_plugin:marked")
    listed = songrank("--help")
    assert listed.returncode == 0
    assert "Not available" in listed.stdout
    assert "Print marks." in listed.stdout
    assert songrank("marked").stdout == "x\n"
    answer = songrank("broken", "--option", "x")
    assert answer.returncode == 2
    assert answer.stderr == (
        "error: plug-in no_such_module:command cannot be loaded (No module named 'no_such_module')\n"
    )


def test_a_plug_in_cannot_replace_a_command(songrank, installed):
    installed(recipes="marking_plugin:marked")
    assert "movielens-1m" in songrank("recipes").stdout


def test_importing_the_plug_in_imports_neither_torch_nor_an_experiment():
    code = "import sys, typer, songrank.core.errors; before = set(sys.modules); import songrank_paper.command; "
    code += "print(*(set(sys.modules) - before))"
    new = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not [name for name in new if name.split(".")[0] in ("torch", "matplotlib", "polars")]
    assert {name for name in new if name.startswith("songrank_paper")} == {
        "songrank_paper",
        "songrank_paper.command",
        "songrank_paper.experiment",
    }
