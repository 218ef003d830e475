"""Markup of reports."""

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from songrank.analysis.report import html
from songrank.core.errors import DataError


class Reader(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.text, self.attributes = [], "", []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes

    def handle_data(self, data):
        self.text += data


def read(markup):
    reader = Reader()
    reader.feed(markup)
    reader.close()
    return reader


@given(st.text(st.characters(codec="ascii", categories=["L", "N", "P", "S", "Zs"])))
def test_text_is_shown_as_it_is_and_is_never_markup(text):
    found = read(html.tag("td", text, title=text))
    assert (found.tags, found.text, found.attributes) == (["td"], text, [("title", text)])


def test_a_table_marks_columns_of_numbers():
    found = read(html.table("sizes", ["name", "kind", "count"], [("a", "b", 1)], words=2))
    assert found.tags.count("th") == 4
    assert found.attributes.count(("class", "number")) == 2
    with pytest.raises(ValueError, match="zip"):
        html.table("sizes", ["name", "count"], [("a", 1, 2)])


def test_a_file_of_another_origin_is_not_replaceable(tmp_path):
    page = tmp_path / "page.html"
    assert html.is_replaceable(page, "songrank", "choose another name")
    page.write_text(html.document("title", "songrank", []))
    assert html.is_replaceable(page, "songrank", "choose another name")
    page.write_text("<html>mine</html>")
    assert not html.is_replaceable(page, "songrank", "choose another name")
    with pytest.raises(DataError, match="cannot be opened .*; choose another name$"):
        html.is_replaceable(tmp_path, "songrank", "choose another name")


def test_a_page_without_data_allows_no_script():
    assert "script-src" not in html.document("title", "songrank", [])
    assert "script-src 'sha256-" in html.document("title", "songrank", [], data="{}")
