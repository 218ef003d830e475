"""The page of the explorer in a real browser: looked up, changed, attacked, and on a phone in the dark."""

import pytest

from songrank.serving.explorer import Explorer
from tests.analysis.report.browser import chromium, requests

from .conftest import ATTACK, ITEMS
from .test_server import served


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    with chromium(tmp_path_factory.mktemp("profile")) as driver:
        driver.set_window_size(1300, 900)
        yield driver


@pytest.fixture(scope="module")
def server(explorer):
    with served(explorer) as server:
        yield server


def wait(driver, condition):
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(driver, 20, poll_frequency=0.05).until(lambda _: condition())


def find(driver, selector):
    return driver.find_elements("css selector", selector)


def status(driver, text):
    wait(driver, lambda: driver.find_element("id", "status").text == text)


def listed(driver, selector):
    """Names and ids of the rows of a list, as they stand in the document."""
    script = "return [...document.querySelectorAll(arguments[0])].map((li) => li.querySelector('.name').textContent)"
    return driver.execute_script(script, f"{selector} li")


def shown(items):
    return [item["id"] if item["name"] is None else f"{item['name']} {item['id']}" for item in items]


def show(driver, user):
    field = driver.find_element("id", "user")
    field.clear()
    field.send_keys(user)
    find(driver, "#ask button")[0].click()
    status(driver, f"User {user}")


def test_a_user_is_looked_up_with_history_and_both_models_beside_each_other(driver, server, explorer):
    driver.get("about:blank")
    requests(driver)
    driver.get(server.url)
    status(driver, "User <i>u</i>")  # the first user
    show(driver, "u1")
    first, second = explorer.recommend("u1")
    assert listed(driver, "#history") == shown(first["history"][::-1])
    assert [heading.text for heading in find(driver, "#answers h2")] == ["sequence", "neumf"]
    assert listed(driver, "#answers section:nth-child(1)") == shown(first["items"])
    assert listed(driver, "#answers section:nth-child(2)") == shown(second["items"])
    boxes = [section.rect for section in find(driver, "main section")]
    assert len({round(box["y"]) for box in boxes}) == 1  # side by side
    common = {item["id"] for item in first["items"]} & {item["id"] for item in second["items"]}
    assert len(find(driver, "#answers li.both")) == 2 * len(common)
    assert all(address.startswith((server.url, "data:")) for address in requests(driver))
    assert driver.get_log("browser") == []


def test_names_and_ids_that_attack_stay_text(driver, server):
    driver.get(server.url)
    status(driver, "User <i>u</i>")
    show(driver, "u1")
    rows = listed(driver, "#history")
    assert f"{ATTACK} i3" in rows
    assert any("<b id=attack>i</b>" in row for row in rows)
    assert find(driver, "main img, main i, main b, #attack") == []
    assert driver.title == "songrank explore"
    assert driver.get_log("browser") == []


def test_another_history_is_compared_with_the_own_one(driver, server, explorer):
    driver.get(server.url)
    status(driver, "User <i>u</i>")
    show(driver, "u1")
    history = [item["id"] for item in explorer.recommend("u1")[0]["history"]]
    find(driver, "#history li:first-child button.remove")[0].click()
    status(driver, "User u1 with a changed history")
    first, second = explorer.recommend("u1", 10, history[:-1])
    before = {item["id"]: item["rank"] for item in explorer.recommend("u1")[0]["items"]}
    assert listed(driver, "#answers section:nth-child(1)") == shown(first["items"])
    marks = [mark.text for mark in find(driver, "#answers section:nth-child(1) .mark")]
    expected = []
    for item in first["items"]:
        moved = before.get(item["id"], 0) - item["rank"]
        expected.append(
            "new" if item["id"] not in before else f"▲ {moved}" if moved > 0 else f"▼ {-moved}" if moved else "="
        )
    assert marks == expected
    assert find(driver, "#answers section:nth-child(2) .note")[0].text == second["notes"][0]

    field = driver.find_element("id", "item")
    field.send_keys("Film 9")
    wait(driver, lambda: [found.get_attribute("value") for found in find(driver, "#items option")] == ["i9"])
    find(driver, "#add button")[0].click()
    wait(driver, lambda: len(listed(driver, "#history")) == len(history))
    assert listed(driver, "#history")[0] == "Film 9 i9"  # the newest
    added = explorer.recommend("u1", 10, [*history[:-1], "i9"])[0]["items"]
    assert listed(driver, "#answers section:nth-child(1)") == shown(added)

    driver.find_element("id", "reset").click()
    status(driver, "User u1")
    assert listed(driver, "#answers section:nth-child(1)") == shown(explorer.recommend("u1")[0]["items"])
    assert not driver.find_element("id", "reset").is_displayed()


def test_options_of_the_form_count_and_mistakes_are_told(driver, server, explorer):
    driver.get(server.url)
    status(driver, "User <i>u</i>")
    field = driver.find_element("id", "k")
    field.clear()
    field.send_keys("3")
    driver.find_element("id", "seen").click()
    show(driver, "u2")
    first, _ = explorer.recommend("u2", 3, with_seen=True)
    assert listed(driver, "#answers section:nth-child(1)") == shown(first["items"])
    show(driver, "nobody")
    assert find(driver, "#answers .note")[0].text == "unknown user: the most popular items"
    driver.find_element("id", "item").send_keys("zzz")
    find(driver, "#add button")[0].click()
    status(driver, "no item has this text in its name or id")


def test_a_model_of_ids_alone_has_no_what_if(driver, films):
    with served(Explorer({"neumf": films.folders["neumf"]})) as server:
        driver.get(server.url)
        status(driver, "User <i>u</i>")
        assert not driver.find_element("id", "add").is_displayed()
        assert find(driver, "button.remove") == []
        assert set(listed(driver, "#answers section")) <= set(ITEMS)  # no names


@pytest.mark.parametrize(("width", "dark"), [(360, True), (1200, False)])
def test_it_fits_a_phone_and_follows_the_scheme(driver, server, width, dark):
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
    try:
        driver.get(server.url)
        status(driver, "User <i>u</i>")
        assert driver.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")
        colour = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
        assert (sum(int(part) for part in colour.strip("rgb()").split(",")) < 200) == dark
    finally:
        driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
