"""A real Chromium, headless and without a network, that notes what pages ask for and complain about."""

import json
import shutil
from contextlib import contextmanager

import pytest

CHROMIUM, DRIVER = shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver")
SWITCHES = [
    "--headless=new",
    "--disable-gpu",
    "--no-sandbox",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]


@contextmanager
def chromium(profile):
    """A browser with a profile of its own; the test is skipped where there is none."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    if CHROMIUM is None or DRIVER is None:
        pytest.skip("no Chromium with chromedriver: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for switch in (*SWITCHES, f"--user-data-dir={profile}"):
        options.add_argument(switch)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    try:
        driver.get("about:blank")
        yield driver
    finally:
        driver.quit()


def look(driver, page, *, width=1200, dark=False):
    """Open a page in a window of this width, light or dark."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
    driver.get(page.as_uri())


def requests(driver):
    """Addresses that were asked for since the last call, the page itself included.

    Not those of the browser's own start page, which may still be loading on a busy machine.
    """
    events = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    found = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
    return [address for address in found if not address.startswith("chrome://")]
