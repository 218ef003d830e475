"""Every code block of the documentation and the README runs, or is at least a command that the command line accepts."""

import importlib.util
import re

import pytest
import torch
import typer

from songrank.cli.main import app
from songrank.data.registry import all_kinds
from songrank.losses.registry import LOSSES
from songrank.training.config.recipe_files import load_recipe
from songrank.training.config.yaml_text import shipped_recipes

from .pages import DOCS, PAGES, README, ROOT, blocks, title

NOTEBOOKS = {DOCS / "tutorials" / f"{name}.md" for name in ("own-loop", "rank-documents")}  # run by test_notebooks.py
RUN = [page for page in PAGES if page not in NOTEBOOKS and any(block.language == "python" for block in blocks(page))]
ALL = [block for page in (*PAGES, README) for block in blocks(page)]
SHELL = [block for block in ALL if block.language in ("sh", "bash")]
AT_MOST_NOT_RUN = 3


def name(block):
    return f"{title(block.page)}:{block.line}"


def can_run(block):
    return block.not_run is None and all(importlib.util.find_spec(package) for package in block.packages)


def execute(block, names):
    exec(compile("\n" * block.line + block.code, str(block.page), "exec"), names)


@pytest.fixture
def in_tmp_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", RUN, ids=title)
def test_the_blocks_of_a_page_run_in_order(page, in_tmp_path):
    names = {"__name__": "__main__"}
    for block in blocks(page):
        if block.language == "python" and can_run(block):
            if block.packages & {"sentence_transformers", "transformers"}:
                names["folder"] = save_tiny_bert(in_tmp_path / "encoder")
            execute(block, names)
        elif block.language == "sh" and page.parent.name == "tutorials":
            for words in block.commands:
                app(words, standalone_mode=False)


@pytest.mark.parametrize(
    "block", [block for block in ALL if block.language == "python" and block.packages], ids=lambda block: name(block)
)
def test_a_block_that_needs_an_optional_package_is_run_with_its_page_where_that_is_installed(block):
    for package in sorted(block.packages):
        pytest.importorskip(package)
    assert block.page in RUN


def save_tiny_bert(folder):
    """A cross-encoder of one layer."""
    spec = importlib.util.spec_from_file_location("cross_encoder", ROOT / "examples" / "cross_encoder.py")
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    for part in example.tiny_bert():
        part.save_pretrained(folder)
    return str(folder)


def stand_ins():
    """Small data for the names that the README's blocks leave to the reader."""
    import pandas as pd

    rows = [(f"visitor {v}", f"sku {(3 * v + n * n) % 40}", n) for v in range(40) for n in range(6)]
    clicks = pd.DataFrame([*rows, ("anna", "sku 1", 1), ("ben", "sku 2", 1)], columns=["visitor", "sku", "when"])
    model = torch.nn.Sequential(torch.nn.Linear(3, 1), torch.nn.Flatten(-2))
    lists = (torch.arange(4), torch.randn(4, 5, 3), torch.tensor([[1.0, 0, 2, 0, 0]] * 4))
    features, grades = torch.randn(60, 3).numpy(), (torch.arange(60) % 3).numpy()
    documents = {"X": features, "y": grades, "group": [6] * 10}
    return {
        "clicks": clicks,
        **documents,
        **{f"{name}_{part}": value for part in ("valid", "test") for name, value in documents.items()},
        "texts": [f"a text about {'cats' if n % 2 else 'dogs'} and thing {n % 7}" for n in range(40)],
        "labels": [["cats"] if n % 2 else ["dogs", "pets"] for n in range(40)],
        "model": model,
        "optimiser": torch.optim.SGD(model.parameters(), 0.1),
        "loader": [lists],
    }


@pytest.mark.parametrize(
    "block", [block for block in blocks(README) if block.language == "python"], ids=lambda block: f"line {block.line}"
)
def test_a_block_of_the_readme_runs(block, in_tmp_path):
    if not can_run(block):
        pytest.skip(block.not_run or "needs an optional package")
    execute(block, {"__name__": "__main__", **stand_ins()})


@pytest.mark.parametrize(
    ("block", "words"),
    [
        pytest.param(block, words, id=f"{name(block)} {' '.join(words[:3])}")
        for block in SHELL
        for words in block.commands
    ],
)
def test_a_command_is_one_that_the_command_line_accepts(block, words):
    words = [re.sub(r"\$\{?\w+\}?", "1", word) for word in words]
    command = typer.main.get_command(app)
    while hasattr(command, "get_command"):
        assert words, "a group of commands without a command"
        found = command.get_command(None, words[0])
        assert found is not None, f"no command {words[0]}"
        command, words = found, words[1:]
    context = command.make_context(command.name, list(words))
    if command.name == "prepare":
        all_kinds()[context.params["name"]].options(context.params["preset"], context.obj)
    if command.name in ("train", "tune") and context.params["recipe"] in shipped_recipes():
        load_recipe(context.params["recipe"], context.params["changes"] or ())


@pytest.mark.parametrize(
    "words", [words for block in SHELL for words in block.scripts], ids=lambda words: " ".join(words[:3])
)
def test_a_script_of_the_repository_exists_and_has_these_options(words):
    script = ROOT / words[0]
    assert script.is_file()
    code = script.read_text()
    for word in words[1:]:
        if word.startswith("--"):
            assert f'"{word.partition("=")[0]}"' in code, word


def test_few_blocks_are_marked_as_not_run():
    assert len([block for block in ALL if block.not_run]) <= AT_MOST_NOT_RUN


def test_every_block_names_its_language():
    wrong = [name(block) for block in ALL if block.language not in ("python", "sh", "bash", "yaml", "text", "pycon")]
    assert not wrong


def test_the_page_on_losses_has_a_row_for_each():
    rows = re.findall(r"^\| `(\w+)` \| `([\w-]+)`", (DOCS / "how-to" / "choose-a-loss.md").read_text(), re.MULTILINE)
    assert dict(rows) == {kind.__name__: loss for loss, kind in LOSSES.items()}


def test_lines_of_text_are_at_most_100_characters():
    wrong = [
        f"{title(page)}:{number}"
        for page in PAGES
        for number, line in enumerate(without_code(page).splitlines(), 1)
        if len(line) > 100 and not line.startswith(("|", "!", "\\[", "f(g)"))
    ]
    assert not wrong


def without_code(page):
    return re.sub(r"^```.*?^```", lambda found: "\n" * found[0].count("\n"), page.read_text(), flags=re.M | re.S)
