"""The page where people meet it: hovered, with the keyboard, on a phone, in the dark, and attacked."""

import base64
import os
from pathlib import Path
from urllib.parse import unquote

import pytest

from songrank.analysis.report import write_report
from songrank.analysis.report.html import tag
from tests.analysis.report.browser import chromium, look, requests

TIP = "return document.getElementById('tip').hidden ? '' : document.getElementById('tip').textContent"

VIEWS = ((1200, False), (360, True))


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    with chromium(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


@pytest.fixture(scope="module")
def pages(finished, compared, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    pages = {task: write_report([run.directory.path], folder / f"{task}.html") for task, run in finished.items()}
    return {**pages, "comparison": write_report([compared], folder / "comparison.html")}


@pytest.fixture
def artefacts(tmp_path):
    folder = Path(os.environ.get("SONGRANK_ARTEFACTS", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def background(driver):
    colour = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
    return sum(int(part) for part in colour.strip("rgb()").split(","))


@pytest.mark.parametrize(
    ("name", "width", "dark"),
    [(name, *view) for name in ("recommendation", "comparison") for view in ((1200, True), (360, False))]
    + [(name, *view) for name in ("recommendation", "search", "labelling", "comparison") for view in VIEWS],
)
def test_it_fits_asks_for_nothing_and_does_not_complain(driver, pages, artefacts, name, width, dark):
    requests(driver)
    driver.get_log("browser")
    look(driver, pages[name], width=width, dark=dark)
    assert requests(driver) == [pages[name].as_uri()]
    assert driver.get_log("browser") == []
    assert driver.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")
    assert (background(driver) < 200) == dark
    height = driver.execute_script("return document.documentElement.scrollHeight")
    clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
    shot = driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
    file = artefacts / f"report-{name}-{width}-{'dark' if dark else 'light'}.png"
    file.write_bytes(base64.b64decode(shot["data"]))
    assert file.stat().st_size > 10_000


@pytest.mark.parametrize("width", [360, 420, 700, 1200])
@pytest.mark.parametrize("tiles", range(1, 7))
def test_tiles_leave_no_gap(driver, pages, width, tiles):
    look(driver, pages["recommendation"], width=width)
    area = driver.execute_script(
        "const box = document.querySelector('.tiles'), one = box.querySelector('div');"
        f"box.replaceChildren(...Array.from({{length: {tiles}}}, () => one.cloneNode(true)));"
        "const size = (e) => e.getBoundingClientRect().width * e.getBoundingClientRect().height;"
        "return [size(box), [...box.children].map(size).reduce((a, b) => a + b)]"
    )
    assert area[1] > 0.97 * area[0]


def test_the_metrics_of_a_run_fit_a_phone(driver, pages):
    for name in ("recommendation", "search", "labelling"):
        look(driver, pages[name], width=360)
        script = "const box = document.querySelector('#metrics .scroll'); return box.scrollWidth <= box.clientWidth"
        assert driver.execute_script(script)


def test_tables_that_are_too_wide_scroll_within_themselves(driver, pages):
    look(driver, pages["comparison"], width=360)
    script = "return [...document.querySelectorAll('.scroll')].some((box) => box.scrollWidth > box.clientWidth)"
    assert driver.execute_script(script)


def test_hovering_a_point_tells_its_value(driver, pages, finished):
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By

    look(driver, pages["recommendation"])
    line = finished["recommendation"].trainer.at.history[2]
    mark = driver.find_elements(By.CSS_SELECTOR, "#convergence figure:first-child .mark")[2]
    ActionChains(driver).scroll_to_element(mark).move_to_element_with_offset(mark, 2, 2).perform()
    first, second, *_ = driver.execute_script(TIP).split("\n")
    assert first == "song, epoch 3 (warm-up)"
    assert second == f"validation ndcg@10: {line['validation ndcg@10']:.4f}"
    heading = driver.find_element(By.TAG_NAME, "h1")
    ActionChains(driver).scroll_to_element(heading).move_to_element(heading).perform()
    assert driver.execute_script(TIP) == ""


def test_arrow_keys_go_from_point_to_point(driver, pages):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    look(driver, pages["comparison"])
    plot = driver.find_element(By.CSS_SELECTOR, "#convergence svg.plot")
    marks = driver.execute_script("return [...arguments[0].querySelectorAll('.mark')].map((m) => m.dataset.tip)", plot)
    seen = []
    for _ in marks:
        plot.send_keys(Keys.ARROW_RIGHT)
        seen.append(driver.execute_script(TIP))
    assert seen == marks
    plot.send_keys(Keys.ESCAPE)
    assert driver.execute_script(TIP) == ""


def test_a_table_is_saved_as_it_is_shown(driver, pages):
    look(driver, pages["search"])
    driver.execute_script(
        "window.saved = [];"
        "HTMLAnchorElement.prototype.click = function () { window.saved.push([this.download, this.href]); };"
        "for (const button of document.querySelectorAll('button.csv')) button.click();"
    )
    saved = dict(driver.execute_script("return window.saved"))
    start, _, text = saved["ndcg@5-by-list-length.csv"].partition(",")
    assert start == "data:text/csv;charset=utf-8"
    lines = unquote(text).splitlines()
    assert lines[0] == "Method,List length,Queries,Mean,Low,High"
    assert all(len(line.split(",")) == 6 for line in lines)


def test_markup_that_slipped_in_would_still_not_run(driver, pages, tmp_path):
    """Nothing unescaped is known; the page's own policy is the second lock."""
    attack = '<img src="x" onerror="window.hit = 1"><script>window.hit = 2</script>'
    page = tmp_path / "attacked.html"
    page.write_text(pages["search"].read_text().replace("<footer>", f"{attack}<footer>"))
    look(driver, page)
    assert driver.execute_script("return window.hit === undefined && document.images.length === 1")
    assert driver.execute_script("return document.querySelectorAll('svg.plot').length > 0")
    driver.get_log("browser")


def test_print_shows_plots_and_no_buttons(driver, pages):
    look(driver, pages["search"])
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    shown = "return [...document.querySelectorAll(arguments[0])].filter((e) => e.getClientRects().length).length"
    assert driver.execute_script(shown, "button") == 0
    assert driver.execute_script(shown, "svg.plot") > 3
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_escaping_survives_a_browser(driver, tmp_path):
    evil = '</script><img src=x onerror="window.hit=1">&amp;\'"'
    page = tmp_path / "evil.html"
    page.write_text("<!doctype html><meta charset=utf-8>" + tag("p", evil, title=evil, id="p"))
    look(driver, page)
    found = driver.execute_script("const p = document.getElementById('p'); return [p.textContent, p.title, window.hit]")
    assert found == [evil, evil, None]
