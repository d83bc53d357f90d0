"""The page in a real browser, headless Chromium, as a person uses it."""

from __future__ import annotations

import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

CHROMIUM, DRIVER = (shutil.which(name) for name in ("chromium", "chromedriver"))

needs_chromium = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="needs Debian's packages chromium and chromium-driver")

ARGUMENTS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--window-size=1440,1000",
)  # fmt: skip

SECONDS = 120
"""Longest wait for something to appear: the first try compiles kernels, beside other test processes."""


@contextmanager
def served(app: Any) -> Iterator[str]:
    """The address of an application, which is served as long as the context lasts."""
    import uvicorn

    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen()  # a browser that is faster than the server waits
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser whose messages are recorded."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for argument in ARGUMENTS:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    try:
        yield driver
    finally:
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

    def link(self, text: str) -> Any:
        return self.browser.find_element("link text", text)

    def until(self, condition: Callable[[], Any]) -> Any:
        """What the condition gives, once it is true. Fails with what the page shows and what the browser has reported."""
        from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException, TimeoutException
        from selenium.webdriver.support.ui import WebDriverWait

        ignored = [NoSuchElementException, StaleElementReferenceException]
        try:
            return WebDriverWait(self.browser, SECONDS, 0.05, ignored).until(lambda _: condition())
        except TimeoutException:
            shown, log = self.find("body").text, self.browser.get_log("browser")
            pytest.fail(f"not within {SECONDS} s on {self.browser.current_url}, which shows:\n{shown}\n{log}")

    def paste(self, text: str) -> None:
        """Paste into the field for lines."""
        paste_into(self.until(lambda: self.find("textarea")), text)

    def violations(self) -> list[str]:
        """Serious findings of axe-core."""
        from axe_core_python.selenium import Axe

        found = Axe().run(self.browser)["violations"]
        return [f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in found if one["impact"] in ("serious", "critical")]

    def complete(self) -> list[str]:
        """What the editor offers to complete the text at the cursor."""
        from selenium.webdriver import ActionChains, Keys

        ActionChains(self.browser).key_down(Keys.CONTROL).send_keys(" ").key_up(Keys.CONTROL).perform()
        found = self.until(lambda: [one.text for one in self.all(".cm-tooltip-autocomplete .cm-completionLabel")])
        ActionChains(self.browser).send_keys(Keys.ESCAPE).perform()
        return list(found)

    def wider(self) -> list[str]:
        """The elements that make the page wider than its window."""
        script = (
            "const root = document.documentElement; if (root.scrollWidth <= innerWidth) return [];"
            "return [...document.querySelectorAll('body *')].filter((one) => one.getBoundingClientRect().right > innerWidth)"
            ".map((one) => one.outerHTML.slice(0, 100)).slice(0, 8)"
        )
        return list(self.browser.execute_script(script))

    @contextmanager
    def on_a_phone_in_the_dark(self) -> Iterator[None]:
        """The width of a phone and the dark theme."""
        dark = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", dark)
        self.browser.set_window_size(390, 844)
        try:
            yield
        finally:
            self.browser.set_window_size(1440, 1000)
            self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


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
