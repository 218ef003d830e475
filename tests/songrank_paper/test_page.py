"""The report: one page that needs nothing else, and the files beside it."""

import csv
import json
from html.parser import HTMLParser

import pytest

Figure = pytest.importorskip("matplotlib.figure").Figure

from songrank.core.errors import DataError
from songrank_paper.experiment import Findings, Table
from songrank_paper.page import Section, check_report, write_findings, write_report

VOID = {"meta", "link", "img", "br", "hr", "input"}
FETCHING = {"src", "srcset", "data", "poster", "action", "background"}


class Page(HTMLParser):
    """What a browser would make of a page: its text, its links, what it would fetch, and whether tags are closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.text, self.links, self.fetched, self.ids = [], "", [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        if tag not in VOID:
            self.open.append(tag)
        self._look(tag, attributes)

    def handle_startendtag(self, tag, attributes):
        self._look(tag, attributes)

    def _look(self, tag, attributes):
        assert tag not in ("script", "iframe", "object", "embed", "link", "img", "base")
        for name, value in attributes:
            if name in FETCHING or (name in ("href", "xlink:href") and tag != "a"):
                self.fetched.append(value)
            if name == "href" and tag == "a":
                self.links.append(value)
            if name == "id":
                self.ids.append(value)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def figure(slope=1.0):
    drawn = Figure(figsize=(3, 2))
    drawn.subplots().plot([0, 1, 2], [0, slope, 2 * slope], "o-", label="a & b")
    drawn.axes[0].legend()
    return drawn


def findings():
    rows = [["SONG", 0.042187, 20_000_263, None], ['"a, b"', float("nan"), 1, "not reached"]]
    table = Table("NDCG <of> all", ["loss", "mean", "pairs", "note"], rows)
    return Findings(["SONG & K-SONG are <level>."], {"means": table}, {"curves": figure()})


def section(name="table-rs", **more):
    more = {"data": ["movielens-20m: synthetic data"], "seconds": 75.0, "cells": 3, "machines": ["a machine"], **more}
    return Section(name, f"Title of {name}", f"songrank paper {name} --data 'a b=c'", **more)


def test_the_page_is_well_formed_and_fetches_nothing(tmp_path):
    write_findings(tmp_path, section(), findings())
    write_findings(tmp_path, section("fig-gamma"), findings())
    text = write_report(tmp_path, ["fig-gamma", "table-rs"]).read_text(encoding="utf-8")
    page = Page(text)
    assert page.open == []
    assert all(value.startswith("#") for value in page.fetched)
    assert "@import" not in text
    assert "url(http" not in text
    assert text.count("<svg") == 2
    assert "default-src 'none'" in text
    for link in page.links:
        assert (link.startswith("#") and link[1:] in page.ids) or (tmp_path / link).is_file()


def test_figures_of_one_page_do_not_use_one_anothers_parts(tmp_path):
    write_findings(tmp_path, section(), findings())
    write_findings(tmp_path, section("fig-gamma"), findings())
    parts = []
    for name in ("table-rs", "fig-gamma"):
        text = (tmp_path / name / "curves.svg").read_text()
        page = Page(text[text.index("<svg") :])
        parts.append({value.strip("#") for value in page.fetched if value.startswith("#m")})
        assert parts[-1] <= set(page.ids)
    assert parts[0]
    assert not parts[0] & parts[1]


def test_the_page_says_what_was_found_with_which_data_and_how(tmp_path):
    write_findings(tmp_path, section(quick=True), findings())
    page = Page(write_report(tmp_path, ["table-rs"]).read_text(encoding="utf-8"))
    said = "Title of table-rs", "SONG & K-SONG are <level>.", "NDCG <of> all", "20,000,263", "0.04219", "not reached"
    more = "movielens-20m: synthetic data", "songrank paper table-rs --data 'a b=c'", "3 cells, 1 min", "a machine"
    for words in (*said, *more, "quick"):
        assert words in page.text
    assert "table-rs/means.csv" in page.links


def test_all_results_of_a_folder_are_on_its_page_in_order(tmp_path):
    for name in ("table-rs", "fig-gamma"):
        write_findings(tmp_path, section(name), findings())
        write_report(tmp_path, ["fig-gamma", "table-rs", "theory"])
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert [name for name in page.ids if name in ("fig-gamma", "table-rs", "theory")] == ["fig-gamma", "table-rs"]


def test_a_csv_holds_the_numbers_themselves(tmp_path):
    write_findings(tmp_path, section(), findings())
    with (tmp_path / "table-rs" / "means.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["loss", "mean", "pairs", "note"]
    assert [float(rows[1][1]), int(rows[1][2]), rows[1][3]] == [0.042187, 20_000_263, ""]
    assert rows[2][0] == '"a, b"'


def test_equal_findings_give_equal_files(tmp_path):
    for place in ("one", "other"):
        write_findings(tmp_path / place, section(), findings())
        write_report(tmp_path / place, ["table-rs"])
    files = [file.relative_to(tmp_path / "one") for file in (tmp_path / "one").rglob("*") if file.is_file()]
    assert len(files) == 4
    for file in files:
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "other" / file).read_bytes()


def test_files_of_an_earlier_run_go(tmp_path):
    write_findings(tmp_path, section(), findings())
    write_findings(tmp_path, section(), Findings(["nothing"], {}, {"other": figure(2.0)}))
    assert sorted(file.name for file in (tmp_path / "table-rs").iterdir()) == ["findings.json", "other.svg"]
    assert json.loads((tmp_path / "table-rs" / "findings.json").read_text())["figures"] == ["other"]


def test_files_of_the_user_stay(tmp_path):
    write_findings(tmp_path, section(), findings())
    for name in ("mine.csv", "mine.svg"):
        (tmp_path / "table-rs" / name).write_text("mine")
    write_findings(tmp_path, section(), Findings(["nothing"]))
    assert sorted(file.name for file in (tmp_path / "table-rs").iterdir()) == ["findings.json", "mine.csv", "mine.svg"]


@pytest.mark.parametrize(
    "damage", ["{}", "[]", "{", '{"section": {}, "remarks": [], "tables": {}, "figures": []}', None]
)
def test_a_result_whose_files_are_damaged_is_left_out_of_the_page_and_said(tmp_path, damage):
    for name in ("table-rs", "fig-gamma"):
        write_findings(tmp_path, section(name), findings())
    if damage is None:
        (tmp_path / "fig-gamma" / "curves.svg").unlink()
    else:
        (tmp_path / "fig-gamma" / "findings.json").write_text(damage)
    said = []
    page = Page(write_report(tmp_path, ["fig-gamma", "table-rs"], said.append).read_text(encoding="utf-8"))
    assert "Title of table-rs" in page.text
    assert "Title of fig-gamma" not in page.text
    assert len(said) == 1
    assert said[0].endswith("run `songrank paper fig-gamma` again")
    write_findings(tmp_path, section("fig-gamma"), findings())
    assert "Title of fig-gamma" in write_report(tmp_path, ["fig-gamma", "table-rs"]).read_text(encoding="utf-8")


def test_a_page_of_somebody_else_is_not_replaced(tmp_path):
    check_report(tmp_path)
    write_report(tmp_path, [])
    check_report(tmp_path)
    (tmp_path / "report.html").write_text("<p>mine</p>")
    with pytest.raises(DataError, match="was not made by `songrank paper`; choose another directory"):
        check_report(tmp_path)
