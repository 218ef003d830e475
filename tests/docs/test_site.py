"""The site builds without warnings, needs no network, and its reference names everything that is public."""

import importlib
import importlib.util
import itertools
import os
import re
import subprocess
import sys
from html.parser import HTMLParser

import filelock
import pytest
import typer

from songrank.cli.main import app
from songrank.data.registry import all_kinds
from songrank.training.config.components import KINDS as COMPONENTS
from songrank.training.config.components import option_class
from songrank.training.config.recipe import Recipe
from songrank.training.config.yaml_text import shipped_recipes

from .pages import ROOT

MODULES = (
    "losses",
    "functional",
    "metrics",
    "models",
    "sampling",
    "data",
    "serving",
    "estimators",
    "analysis",
    "training",
)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    for package in ("mkdocs", "material", "mkdocstrings", "latex2mathml"):
        pytest.importorskip(package, reason="the documentation needs pip install 'songrank[docs]'")
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return build(tmp_path_factory.mktemp("site"))
    folder = tmp_path_factory.getbasetemp().parent / "site"  # shared by all workers
    with filelock.FileLock(f"{folder}.lock"):
        return folder if (folder / "index.html").exists() else build(folder)


def build(folder):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


class Page(HTMLParser):
    """The ids, the code and the addresses of a page."""

    def __init__(self, file):
        super().__init__()
        self.ids, self.code, self.loads, self._inside = set(), set(), [], 0
        self.html = file.read_text(encoding="utf-8")
        self.feed(self.html)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        if "id" in found:
            self.ids.add(found["id"])
        if tag == "code":
            self._inside += 1
            self._words = ""
        if tag in ("script", "img", "iframe", "source") or (tag == "link" and found.get("rel") != "canonical"):
            self.loads.append(found.get("src") or found.get("href") or "")

    def handle_endtag(self, tag):
        if tag == "code" and self._inside:
            self._inside -= 1
            self.code.add(self._words)

    def handle_data(self, data):
        if self._inside:
            self._words += data


def test_no_page_loads_anything_from_a_network(site):
    for file in site.rglob("*.html"):
        wrong = [address for address in Page(file).loads if re.match(r"(https?:)?//", address)]
        assert not wrong, f"{file}: {wrong}"


def test_formulas_are_mathml(site):
    for file in site.rglob("*.html"):
        html = file.read_text(encoding="utf-8")
        assert "arithmatex" not in html, file
    assert (site / "explanation" / "mathematics.html").read_text().count("<math") > 30


def test_the_search_index_can_be_read_from_a_file(site):
    assert (site / "search" / "search_index.js").read_text(encoding="utf-8").startswith("var __index = {")


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_is_in_the_api_reference(site, module):
    ids = Page(site / "reference" / "api" / f"{module}.html").ids
    found = importlib.import_module(f"songrank.{module}")
    for name in getattr(found, "__all__", ()):
        hidden = importlib.util.find_spec(f"songrank.{module}.{name}")  # by a submodule of the same name
        place = f"{getattr(found, name).__module__}.{name}" if hidden else f"songrank.{module}.{name}"
        assert place in ids, name


def test_every_name_of_the_package_is_in_the_api_reference(site):
    import songrank

    page = Page(site / "reference" / "api" / "songrank.html")
    for name in songrank.__all__:
        linked = re.search(rf"<code>{name}</code></a>", page.html) is not None
        assert f"songrank.{name}" in page.ids or linked or name in MODULES, name


def leaves(command, words=()):
    if not hasattr(command, "list_commands"):
        yield " ".join(words), command
        return
    for word in command.list_commands(None):
        yield from leaves(command.get_command(None, word), (*words, word))


def test_every_command_and_option_is_in_the_reference(site):
    page = Page(site / "reference" / "cli.html")
    for name, command in leaves(typer.main.get_command(app), ("songrank",)):
        assert name.replace(" ", "-") in page.ids
        for param in (param for param in command.params if not getattr(param, "hidden", False)):
            for word in (*param.opts, *param.secondary_opts):
                assert not word.startswith("-") or word in page.code, f"{name} {word}"


def test_every_option_of_a_kind_of_data_set_is_in_the_reference(site):
    page = Page(site / "reference" / "data-kinds.html")
    for kind in all_kinds().values():
        assert kind.name in page.ids
        for option in kind.flags():
            assert "--" + option.replace("_", "-") in page.code, f"{kind.name} {option}"


def keys(section, prefix=""):
    for name, field in section.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and hasattr(inner, "model_fields"):
            yield from keys(inner, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def test_every_recipe_key_is_in_the_reference(site):
    page = Page(site / "reference" / "recipe-keys.html")
    missing = [key for key in keys(Recipe) if key not in page.code]
    assert not missing


@pytest.mark.parametrize("section", COMPONENTS)
def test_every_option_of_a_loss_or_model_is_described_in_the_reference(site, section):
    page = Page(site / "reference" / "recipe-keys.html")
    for name, kind in COMPONENTS[section].items():
        assert name in page.code
        for option in option_class(kind).model_fields:
            assert option in page.code, f"{name}.{option}"
    assert "<td></td>\n</tr>" not in page.html.partition('id="losses"')[2], "an option without a meaning"


def test_every_shipped_recipe_is_in_the_reference(site):
    page = Page(site / "reference" / "recipes.html")
    assert shipped_recipes().keys() <= page.ids


def test_search_works_in_a_browser_from_a_file(site, tmp_path):
    from ..analysis.report.browser import chromium, look, requests

    with chromium(tmp_path / "profile") as driver:
        from selenium.webdriver.support.wait import WebDriverWait

        look(driver, site / "how-to" / "resume.html")
        driver.execute_script("document.querySelector('label.md-search__icon[for=__search]').click()")
        WebDriverWait(driver, 60).until(
            lambda d: d.find_element("css selector", "input.md-search__input").is_displayed()
        )
        driver.find_element("css selector", "input.md-search__input").send_keys("checkpoint")
        results = WebDriverWait(driver, 60).until(
            lambda d: d.find_elements("css selector", ".md-search-result__item h1")
        )
        assert results
        assert all(not address.startswith(("http:", "https:")) for address in requests(driver))


@pytest.mark.parametrize("scheme", ["default", "slate"], ids=["light", "dark"])
def test_pages_fit_narrow_and_wide_screens_in_light_and_dark(site, tmp_path, scheme):
    from ..analysis.report.browser import chromium, look

    pages, widths = ("index", "tutorials/own-loop", "explanation/mathematics"), (400, 1300)
    with chromium(tmp_path / "profile") as driver:
        for page, width in itertools.product(pages, widths):
            look(driver, site / f"{page}.html", width=width, dark=scheme == "slate")
            driver.save_screenshot(str(tmp_path / f"{page.replace('/', '-')}-{width}.png"))
            assert driver.execute_script("return document.documentElement.scrollWidth") <= width
            assert driver.execute_script("return document.body.getAttribute('data-md-color-scheme')") == scheme
