"""The page as a file: whole, self-contained, escaped, the same each time, and honest about what is missing."""

import json
import re
import shutil
from html.parser import HTMLParser

import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file

from songrank.analysis.report import write_report
from songrank.analysis.report.contents import gather
from songrank.analysis.report.page import render
from songrank.core.errors import UserError
from songrank.io.json_files import read_json, write_json

EVIL = '</script><img src=x onerror="document.title=1"><!-- \u202e\x07'

VOID = {"meta"}

QUERIES = {"recommendation": 40, "search": 12, "labelling": 15}
"""Of the small data sets' test splits, those with a relevant item."""


class Page(HTMLParser):
    """Elements, and whether they are closed in order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.found, self.scripts, self.words = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        (self.scripts if self.open[-1:] == ["script"] else self.words).append(data)

    @property
    def text(self):
        return " ".join(self.words)

    @property
    def data(self):
        return json.loads(self.scripts[0])


def page_of(*places, **options):
    return Page(render(gather(places, **options)))


@pytest.fixture
def run(finished, tmp_path):
    """A copy of a run that a test may damage; its data set beside it."""
    source = finished["recommendation"]
    shutil.copytree(source.dataset.path, tmp_path / "data")
    folder = shutil.copytree(source.directory.path, tmp_path / "run")
    change(folder, data=str(tmp_path / "data"))
    return folder


def change(folder, **entries):
    config = yaml.safe_load((folder / "config.yaml").read_text())
    (folder / "config.yaml").write_text(yaml.safe_dump({**config, **entries}))


@pytest.mark.parametrize("task", ["recommendation", "search", "labelling"])
def test_one_run_has_every_part(finished, task):
    run = finished[task]
    page = page_of(run.directory.path)
    assert "Not shown" not in page.text
    assert sum(tag == "h1" for tag, _ in page.found) == 1
    assert all(attrs["aria-label"] for tag, attrs in page.found if attrs.get("class") == "plot")
    data = page.data
    (method,) = data["methods"]
    assert method["runs"][0]["evaluations"]["test"]["metrics"] == pytest.approx(run.results["test"].values)
    assert len(method["queries"]["best"]) == 5
    assert method["memory"]["tables"][0]["exact"]
    counted = ~run.results["test"].per_query["ndcg@5"].isnan()
    assert data["sizes"]["metric"] == "ndcg@5"
    assert sum(one["queries"] for one in data["sizes"]["bins"][method["label"]]) == int(counted.sum()) == QUERIES[task]
    for value in run.results["test"].values.values():
        assert f"{value:.4f}" in page.text


def test_nothing_is_fetched_and_only_its_own_script_runs(compared):
    text = render(gather([compared]))
    page = Page(text)
    assert not [attrs for _, attrs in page.found if "src" in attrs]
    assert all(attrs["href"].startswith("#") for tag, attrs in page.found if "href" in attrs)
    assert not re.search(r"url\(|@import|https?://", text)
    assert not [name for _, attrs in page.found for name in attrs if name.startswith("on")]
    assert [attrs for tag, attrs in page.found if tag == "script"] == [
        {"type": "application/json", "id": "songrank-data"},
        {},
    ]


def test_every_plot_has_its_data_in_a_table_below(compared):
    page = page_of(compared)
    figures = [at for at, (tag, _) in enumerate(page.found) if tag == "figure"]
    for begin, end in zip(figures, [*figures[1:], len(page.found)], strict=True):
        tags = [tag for tag, _ in page.found[begin:end]]
        assert {"details", "table", "button"} <= set(tags)


def test_equal_runs_give_equal_bytes(compared):
    assert render(gather([compared])) == render(gather([compared]))


def test_a_comparison_shows_what_compare_finds(compared):
    from songrank.analysis.finished_runs import find_runs, group_runs, read_run
    from songrank.metrics.comparison import compare_folds

    methods = {method.label: method for method in group_runs([read_run(path) for path in find_runs([compared])])}
    expected = compare_folds(methods["song"].folds("mrr"), methods["lambdarank"].folds("mrr"))
    data = page_of(compared, baseline="lambdarank").data
    found = data["comparison"]["differences"]["song"]["mrr"]
    assert (found["mean"], found["low"], found["high"]) == (expected.mean, expected.low, expected.high)
    assert data["comparison"]["baseline"] == "lambdarank"
    assert page_of(compared, baseline=str(compared / "song-1")).data["comparison"]["baseline"] == "song"
    with pytest.raises(UserError, match="baseline 'nope' is neither a label nor one of the runs"):
        gather([compared], baseline="nope")


def test_titles_and_ids_that_are_markup_stay_text(tmp_path):
    from songrank.data import prepare
    from songrank.training.config.recipe_files import load_recipe
    from songrank.training.run import Run

    names = [f"{EVIL}{number}" for number in range(12)]
    rows = [(user, item) for user in range(8) for item in range(12) if (user + item) % 3]
    table = {"user": [f"{EVIL}u{user}" for user, _ in rows], "item": [names[item] for _, item in rows]}
    prepare("interactions", table, tmp_path / "data", user_column="user", item_column="item")
    small = ["model.dim=4", "batch.irrelevant=3", "warm_up.epochs=1", "fine_tuning.epochs=1", "device=cpu"]
    recipe = load_recipe("quick", [f"data={tmp_path / 'data'}", *small]).model_copy(update={"title": EVIL})
    assert Run.begin(recipe, tmp_path / "run").finish()
    text = render(gather([tmp_path / "run"]))
    page = Page(text)
    assert "<img" not in text
    assert not [tag for tag, _ in page.found if tag == "img"]
    assert "\u202e" not in text
    assert page.data["methods"][0]["runs"][0]["config"]["title"] == EVIL
    assert page.data["methods"][0]["queries"]["best"][0]["query"].startswith(EVIL)
    assert "</script><img src=x onerror" in page.text


@pytest.mark.parametrize(
    ("damage", "why", "shown"),
    [
        (lambda run: shutil.rmtree(run.parent / "data"), "dataset.json: is missing", ["Convergence", "ndcg@5"]),
        (
            lambda run: shutil.rmtree(run / "checkpoints"),
            "the checkpoint with the memory was deleted",
            ["Best by ndcg@5"],
        ),
        (lambda run: (run / "model.safetensors").write_bytes(b"x"), "safetensors: checksum mismatch", ["exact g"]),
        (lambda run: (run / "metrics.jsonl").unlink(), "metrics.jsonl: is missing", ["exact g", "Best by"]),
        (lambda run: shutil.rmtree(run / "evaluation"), "has no evaluation of the test split", ["exact g"]),
        (lambda run: (run / "run.json").unlink(), "was not written by `songrank train`", ["Convergence"]),
    ],
)
def test_what_is_gone_is_one_line_and_the_rest_is_there(run, damage, why, shown):
    damage(run)
    text = page_of(run).text
    assert re.search(rf"Not shown: [^\n]*{re.escape(why)}", text)
    assert all(words in text for words in shown)


@pytest.mark.parametrize("file", ["test.json", "test.safetensors", "validation.json", "validation.safetensors"])
def test_a_damaged_evaluation_is_named_whatever_the_split(file, run):
    place = run / "evaluation" / file
    place.write_bytes(place.read_bytes()[:-30])
    with pytest.raises(UserError, match=re.escape(file)):
        page_of(run)


def test_another_data_set_at_the_path_is_not_taken_for_the_run_s(run):
    info = run.parent / "data" / "dataset.json"
    write_json(info, {**read_json(info), "name": "another"})
    assert "is not the data set of" in page_of(run).text
    with pytest.raises(UserError, match="is not the data set of"):
        gather([run], data=run.parent / "data")


def test_data_that_was_moved_is_read_where_it_is_said_to_be(run):
    before = page_of(run).data["sizes"]
    (run.parent / "data").rename(run.parent / "moved")
    assert page_of(run, data=run.parent / "moved").data["sizes"] == before


def test_a_figure_of_zero_is_shown_as_zero(run):
    file = run / "evaluation" / "test.json"
    evaluation, values = read_json(file), load_file(file.with_suffix(".safetensors"))
    save_file({**values, "mrr": torch.zeros_like(values["mrr"])}, file.with_suffix(".safetensors"))
    del evaluation["values_sha256"]
    write_json(file, {**evaluation, "metrics": {**evaluation["metrics"], "mrr": 0.0}})
    words = page_of(run).words
    row = words.index("mrr", words.index("Final metrics"))
    assert words[row + 1] == "0.0000"


def test_making_a_report_leaves_the_global_random_numbers_alone(run):
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    gather([run])
    assert torch.equal(torch.rand(3), expected)


def test_a_file_that_is_no_report_is_not_replaced(run, tmp_path):
    assert write_report([run]) == run / "report.html"
    write_report([run])
    mine = tmp_path / "mine.html"
    mine.write_text("<p>mine</p>")
    with pytest.raises(UserError, match="mine.html: already exists and is not a report"):
        write_report([run], mine)
    assert mine.read_text() == "<p>mine</p>"
    write_report([run], mine, overwrite=True)
    assert mine.read_text() == (run / "report.html").read_text()
