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


_OPERABLE = """
document.activeElement.blur();
document.body.tabIndex = -1, document.body.focus(), document.body.removeAttribute('tabindex');
const found = document.querySelectorAll(
  'a[href], button:not(:disabled), input:not([type=file]), select, textarea, summary, [role=button], [contenteditable=true]');
const inClosed = (one) => one.tagName !== 'SUMMARY' && one.closest('details:not([open])');
return [...found].filter((one) => one.checkVisibility({visibilityProperty: true}) && !inClosed(one));
"""
"""Puts the focus before the first element, and gives all that can be operated."""
_FOCUSED = """
const one = document.activeElement;
const style = (each) => getComputedStyle(each);
const hasRing = (each) => each && style(each).outlineStyle !== 'none' && parseFloat(style(each).outlineWidth) > 0;
const node = one.matches('.graph-node') && parseFloat(style(one.querySelector('rect')).strokeWidth) >= 3;
return [one, Boolean(hasRing(one) || node || hasRing(one.closest('.cm-editor'))), one.outerHTML.slice(0, 120)];
"""
"""What has the focus, and whether that can be seen."""
MORE_STOPS = 40
"""Elements that only scroll have the focus, too."""


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

    def press(self, key: str) -> None:
        """Press a key, or several in turn, on what has the focus."""
        from selenium.webdriver import ActionChains

        ActionChains(self.browser).send_keys(key).perform()

    def focused(self) -> str:
        """The text of what has the focus."""
        return str(
            self.browser.execute_script("return document.activeElement === document.body ? '' : document.activeElement.innerText")
        )

    def beyond_keys(self) -> list[str]:
        """What a mouse reaches and the key Tab does not, and what does not show that it has the focus."""
        from selenium.webdriver import Keys

        expected = self.browser.execute_script(_OPERABLE)
        reached: list[Any] = []
        unseen: list[str] = []
        for _ in range(len(expected) + MORE_STOPS):
            self.press(Keys.TAB)
            element, is_shown, text = self.browser.execute_script(_FOCUSED)
            if element.tag_name == "body" or element in reached:
                break
            reached.append(element)
            unseen += [] if is_shown else [f"not shown: {text}"]
        return [f"not reached: {one.get_attribute('outerHTML')[:120]}" for one in expected if one not in reached] + unseen

    def edited(self) -> str:
        """The text in the editor."""
        lines = "return [...document.querySelectorAll('.cm-content .cm-line')].map((line) => line.textContent).join('\\n')"
        return str(self.browser.execute_script(lines)).rstrip("\n")

    def complete(self) -> list[str]:
        """What the editor offers to complete the text at the cursor."""
        from selenium.webdriver import ActionChains, Keys

        ActionChains(self.browser).key_down(Keys.CONTROL).send_keys(" ").key_up(Keys.CONTROL).perform()

        def shown() -> list[str]:
            texts = [one.text for one in self.all(".cm-tooltip-autocomplete .cm-completionLabel")]
            return texts if all(texts) else []  # a label without its text yet

        found = self.until(shown)
        ActionChains(self.browser).send_keys(Keys.ESCAPE).perform()
        self.until(lambda: not self.all(".cm-tooltip-autocomplete"))
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

    def is_written() -> bool:
        """What an answer of the server shows may move the editor away under a click, so it gets the focus without one."""
        page.browser.execute_script("document.querySelector('.cm-content').focus()")
        ActionChains(page.browser).key_down(Keys.CONTROL).send_keys("a").key_up(Keys.CONTROL).perform()
        paste_into(page.find(".cm-content"), text)
        return page.edited() == text.removesuffix("\n")

    page.until(is_written)
