"""The studio in a real browser, headless Chromium: from pasted lines to a saved pipeline."""

from __future__ import annotations

import gzip
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from etl.server.studio.page import STATIC

CHROMIUM, DRIVER = (shutil.which(name) for name in ("chromium", "chromedriver"))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="needs Debian's packages chromium and chromium-driver"),
]

ARGUMENTS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--window-size=1440,1000",
)  # fmt: skip

SECONDS = 60
"""Longest wait for something to appear: the first try compiles kernels."""

HOSTILE = "<img src=x onerror=document.title='owned'>"

LINES = f"""\
2026-11-20 06:25:03,412 INFO  [main] com.acme.Server started on port 8080 in 412 ms
2026-11-20 06:25:04,001 WARN  [worker-3] com.acme.Pool connection 10.1.2.3:5432 slow: 1500 ms
2026-11-20 06:25:05,777 ERROR [worker-1] com.acme.Http request 9f8e failed for user alice from 192.0.2.17
{HOSTILE}
2026-11-20 06:25:06,002 INFO  [worker-2] com.acme.Http request 9f8f done for user bob from 192.0.2.18
"""


JSON_PIPELINE = """\
source: {type: file, path: x.log}
steps:
  - {type: json, fields: {user: string, n: int}}
  - {type: filter, where: n > 5}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("studio")


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    """The address of a studio that saves into ``folder``."""
    import uvicorn

    from etl.server.studio.standalone import standalone_app

    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(standalone_app(folder, None, "secret"), log_level="error"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}/studio#token=secret"
    server.should_exit = True
    thread.join()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for argument in ARGUMENTS:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


class Page:
    """The page as a person uses it."""

    def __init__(self, browser: Any) -> None:
        self.browser = browser

    def find(self, selector: str) -> Any:
        return self.browser.find_element("css selector", selector)

    def all(self, selector: str) -> list[Any]:
        return self.browser.find_elements("css selector", selector)

    def button(self, text: str) -> Any:
        return self.browser.find_element("xpath", f"//button[contains(normalize-space(.), '{text}')]")

    def until(self, condition: Callable[[], Any]) -> Any:
        from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException
        from selenium.webdriver.support.ui import WebDriverWait

        ignored = [NoSuchElementException, StaleElementReferenceException]
        return WebDriverWait(self.browser, SECONDS, 0.05, ignored).until(lambda _: condition())

    def paste(self, text: str) -> None:
        """Paste into the field for lines."""
        paste_into(self.until(lambda: self.find("textarea")), text)

    def violations(self) -> list[str]:
        """Serious findings of axe-core."""
        from axe_core_python.selenium import Axe

        found = Axe().run(self.browser)["violations"]
        return [f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in found if one["impact"] in ("serious", "critical")]


@pytest.fixture
def page(browser: Any, address: str) -> Page:
    """The studio as it is at first: what a tab has kept is gone."""
    browser.get(address)
    browser.execute_script("sessionStorage.clear(); sessionStorage.setItem('sluice-token', 'secret')")
    browser.refresh()
    return Page(browser)


def test_from_pasted_lines_to_a_saved_pipeline_that_reads_them(page: Page, folder: Path) -> None:
    assert page.until(lambda: page.find("textarea"))
    assert page.violations() == []

    page.paste(LINES)
    page.until(lambda: page.all(".lines .cap") and page.all(".events table"))
    assert {one.text for one in page.all(".legend .chip")} == {"timestamp", "log.level", "process.thread.name", "message"}
    assert [one.text for one in page.all(".lines .cap.f1")] == ["INFO", "WARN", "ERROR", "INFO"]
    assert HOSTILE in page.find(".lines li.dead").text
    assert "expected %{TIMESTAMP_ISO8601:timestamp}" in page.find(".lines li.dead").text
    assert page.browser.title == "Sluice"

    page.button("add step").click()
    page.button("filter").click()
    page.until(lambda: [one.text for one in page.all(".node.step b")] == ["grok", "timestamp", "filter"])
    assert [one.text for one in page.all(".edge")] == ["5", "4", "4", "4"]
    assert page.violations() == []

    page.button("Save").click()
    page.find("dialog input").clear()
    page.find("dialog input").send_keys("shop")
    page.find("dialog button.primary").click()
    page.until(lambda: (folder / "shop.yaml").exists())
    assert "type: filter" in (folder / "shop.yaml").read_text()
    assert [one for one in page.browser.get_log("browser") if one["level"] == "SEVERE"] == []


def test_typing_shows_problems_under_the_text_and_then_the_events(page: Page) -> None:
    page.paste('{"user": "eve", "n": 17}\n{"user": "ann", "n": 3}\n')
    page.until(lambda: page.all(".cm-content") and page.all(".events tbody tr"))

    write(page, JSON_PIPELINE.replace("n > 5", "m > 5"))
    page.until(lambda: "unknown-field" in page.find(".problems").text)
    assert page.all(".cm-lintRange-error")
    assert page.violations() == []

    write(page, JSON_PIPELINE)
    page.until(lambda: not page.all(".problems") and len(page.all(".events tbody tr")) == 1)
    assert "eve" in page.find(".events tbody tr").text


def paste_into(element: Any, text: str) -> None:
    """What Ctrl-V does: selenium's keys are slow, and have no characters beyond the BMP."""
    element.parent.execute_script(
        "const data = new DataTransfer(); data.setData('text/plain', arguments[1]);"
        "arguments[0].dispatchEvent(new ClipboardEvent('paste', {clipboardData: data, bubbles: true, cancelable: true}))",
        element,
        text,
    )


def write(page: Page, text: str) -> None:
    """Replace the text of the editor."""
    from selenium.webdriver import ActionChains, Keys

    page.find(".cm-content").click()
    ActionChains(page.browser).key_down(Keys.CONTROL).send_keys("a").key_up(Keys.CONTROL).perform()
    paste_into(page.find(".cm-content"), text)


def test_the_page_paints_soon_is_small_and_fits_a_phone(page: Page) -> None:
    page.until(lambda: page.all(".cm-content"))
    script = "return performance.getEntriesByType('resource').map(one => [one.name, one.decodedBodySize])"
    loaded = page.browser.execute_script(script)
    paint = page.browser.execute_script("return performance.getEntriesByName('first-contentful-paint')[0].startTime")

    assert all(name.startswith("http://127.0.0.1:") for name, _ in loaded)
    assert {name for name, _ in loaded} & {f"{name.rpartition('/static/')[0]}/static/app.js" for name, _ in loaded}
    assert sum(len(gzip.compress(one.read_bytes())) for one in STATIC.glob("*.*s")) < 300_000
    assert paint > 0

    page.browser.set_window_size(390, 844)
    try:
        width = page.browser.execute_script("return [document.documentElement.scrollWidth, innerWidth]")
        assert width[0] <= width[1]
    finally:
        page.browser.set_window_size(1440, 1000)
