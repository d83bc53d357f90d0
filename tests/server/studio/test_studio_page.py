"""The studio in a real browser, headless Chromium: from pasted lines to a saved pipeline."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from shutil import copyfile, copytree
from typing import Any

import pytest
from browsers import Page, chromium, needs_chromium, served, write
from cli.state_pipelines import WINDOW, Pipeline
from fake_engine import FakeEngine, FakeRun
from jobs_and_client import LOOPBACK

from etl.receipts import Counts, RejectCount
from etl.server.app import create_app
from etl.server.events import Events
from etl.server.jobs_folder import JobsFolder
from etl.server.listening import listening
from etl.server.pipeline_server import PipelineServer
from etl.server.studio.page import STATIC
from etl.server.studio.standalone import server_pages
from etl.server.studio.worker_process import WorkerProcess

pytestmark = [pytest.mark.slow, needs_chromium]

Keys = pytest.importorskip("selenium.webdriver").Keys

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
    from etl.server.studio.standalone import standalone_app

    with served(standalone_app(folder, None, "secret")) as url:
        yield f"{url}/studio#token=secret"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as driver:
        yield driver


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
    assert page.browser.title == "Studio · Sluice"

    page.press(Keys.ESCAPE)
    page.browser.execute_script("arguments[0].focus()", page.button("add step"))
    page.press(Keys.ENTER)
    page.press(Keys.TAB)
    page.press(Keys.ESCAPE)
    assert page.focused() == "+ add step"
    page.press(Keys.ENTER + Keys.TAB)
    page.press(Keys.ENTER)
    page.until(lambda: [one.text for one in page.all(".node.step b")] == ["grok", "timestamp", "filter"])
    assert [one.text for one in page.all(".edge")] == ["5", "4", "4", "4"]
    assert page.violations() == []

    assert page.beyond_keys() == []

    page.button("Save").click()
    page.find("dialog input").clear()
    page.find("dialog input").send_keys("shop")
    page.until(lambda: page.all("dialog pre.test"))
    page.find("dialog button.primary").click()
    page.until(lambda: "written: " in page.find("dialog .message").text)
    assert "type: filter" in (folder / "shop.yaml").read_text()
    assert "dead_letters:" in (folder / "shop_test.yaml").read_text()
    assert [one for one in page.browser.get_log("browser") if one["level"] == "SEVERE"] == []


def test_typing_shows_problems_under_the_text_and_then_the_events(page: Page) -> None:
    page.paste('{"user": "eve", "n": 17}\n{"user": "ann", "n": 3}\n')
    page.until(lambda: page.all(".cm-content") and page.all(".events tbody tr"))

    write(page, JSON_PIPELINE.replace("n > 5", "m > 5"))
    page.until(lambda: "unknown-field" in page.find(".problems").text)
    page.until(lambda: page.all(".cm-lintRange-error"))
    assert page.violations() == []

    write(page, "source: {type: fi")
    assert "file" in page.complete()
    write(
        page, "source: {type: file, path: x.log}\nsteps:\n  - {type: json, fields: {user: string, n: int}}\n  - {type: filter, wh"
    )
    assert "where" in page.complete()

    write(page, JSON_PIPELINE)
    page.until(lambda: not page.all(".problems") and len(page.all(".events tbody tr")) == 1)
    assert "eve" in page.find(".events tbody tr").text


def test_what_is_typed_while_the_page_shows_what_was_typed_before_stays(page: Page) -> None:
    page.paste('{"n": 17}\n')
    page.until(lambda: page.all(".cm-content") and page.all(".events tbody tr"))
    write(page, "# ")

    page.browser.execute_async_script("""
        const [typed, done] = arguments;
        (async () => {
            for (const letter of typed) {
                const data = new DataTransfer();
                data.setData("text/plain", letter);
                const event = new ClipboardEvent("paste", {clipboardData: data, bubbles: true, cancelable: true});
                document.querySelector(".cm-content").dispatchEvent(event);
                for (let turn = 0; turn < 20; turn += 1) await null;  // the page renders, and its effects are still to come
            }
            done();
        })();
    """, "abcdefghij")  # fmt: skip
    kept = "return JSON.parse(sessionStorage.getItem('sluice-studio-yaml'))"
    page.until(lambda: page.browser.execute_script(kept) == page.edited())

    assert page.edited() == "# abcdefghij"


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


# ── The screens of a server ───────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, FakeEngine, Events]]:
    """The address of a server of pipelines, whose engine needs no Spark."""
    root = tmp_path_factory.mktemp("server")
    (root / "jobs" / "security").mkdir(parents=True)
    (root / "jobs" / "security" / "ssh.yaml").write_text(
        f"""\
description: Failed logins.
source: {{type: file, path: {root}/ssh.log}}
steps:
  - {{type: grok, patterns: ["%{{WORD:outcome}} password from %{{IP:source.ip}}"]}}
sink: {{type: file, path: {root}/ssh.jsonl}}
"""
    )
    (root / "jobs" / "security" / "bad.yaml").write_text("source: {type: file, pth: x}\n")
    engine = FakeEngine(root / "state")
    (root / "stored").mkdir()
    stored = Pipeline(root / "stored", WINDOW)
    stored.read([(ip, 1, "x") for ip, count in (("a", 5), ("b", 3), (HOSTILE, 4)) for _ in range(count)])
    copyfile(stored.file, root / "jobs" / "security" / "logins.yaml")
    copytree(stored.state, engine.state("security/logins").root, dirs_exist_ok=True)
    pipelines = PipelineServer(JobsFolder(root / "jobs"), engine.root, engine)
    pipelines.start()
    worker = WorkerProcess()
    app = create_app(pipelines, pages=server_pages(worker))
    with listening(app, LOOPBACK) as address:
        yield f"http://{address.host}:{address.port}", engine, app.state.events
    worker.close()
    pipelines.stop(20)


def test_a_pipeline_from_the_studio_to_the_screens_of_a_server(browser: Any, server: tuple[str, FakeEngine, Events]) -> None:
    """One visit: each part continues on the screen, and with the pipelines, that the part before has left."""
    url, engine, events = server
    page = Page(browser)

    check_list_of_pipelines(page, url)
    check_hidden_page_is_no_viewer(page, events)
    deploy_from_studio(page)
    run = check_tabs_of_run(page, engine)
    check_where_a_letter_stops(page, engine, url)
    replay_dead_letter(page, engine, run)
    try_dead_letter(page)
    drop_dead_letter(page, engine)
    check_near_thresholds(page, url)
    check_rule_editor(page)
    check_screens_on_a_phone(page, url)
    stop_pipeline(page, url)
    assert [one for one in browser.get_log("browser") if one["level"] == "SEVERE"] == []


def check_list_of_pipelines(page: Page, url: str) -> None:
    page.browser.get(url)
    page.until(lambda: len(page.all(".pipelines tbody tr")) == 3)
    assert "unknown-option" in page.find(".pipelines .trouble").text
    assert page.beyond_keys() == []
    assert page.violations() == []


def check_hidden_page_is_no_viewer(page: Page, events: Events) -> None:
    page.until(lambda: events.viewers == 1)
    for hidden, viewers in (("true", 0), ("false", 1)):
        page.browser.execute_script(
            f"Object.defineProperty(document, 'hidden', {{value: {hidden}, configurable: true}});"
            "document.dispatchEvent(new Event('visibilitychange'))"
        )
        page.until(lambda viewers=viewers: events.viewers == viewers)
    page.until(lambda: len(page.all(".pipelines tbody tr")) == 3)


def deploy_from_studio(page: Page) -> None:
    page.link("New pipeline").click()
    page.paste('{"user": "eve", "n": 17}\n{"user": "ann", "n": 3}\n')
    page.until(lambda: page.all(".events tbody tr"))
    page.button("Deploy").click()
    page.find("dialog input").clear()
    page.find("dialog input").send_keys("web/users")
    page.find("dialog button.primary").click()
    page.until(lambda: page.link("open web/users")).click()
    page.until(lambda: page.find(".tag").text == "running")


def check_tabs_of_run(page: Page, engine: FakeEngine) -> FakeRun:
    """Counts of a run appear while it lasts, and each tab has its content; gives the run."""
    run = next(run for run in engine.runs if run.name == "web/users")
    run.work(1200, dead=7)
    run.totals.steps["steps[0] json"] = Counts(1200, 1193, dead=7)
    run.totals.rejected["steps[0] json", "json-failed"] = RejectCount(7, "is not JSON", HOSTILE)
    page.until(lambda: "7 dead" in page.find(".graph").text)
    assert page.violations() == []
    assert page.beyond_keys() == []
    page.browser.execute_script("arguments[0].focus()", page.find(".graph-node.stream"))
    page.press(Keys.ENTER)
    page.until(lambda: "1,193" in page.find(".counters tbody").text)
    for tab, selector in (
        ("Charts", ".uplot canvas"),
        ("Versions", ".tag.good"),
        ("Messages", ".messages li"),
        ("File", ".file"),
    ):
        page.button(tab).click()
        page.until(lambda selector=selector: page.all(selector))
        assert page.violations() == []
        assert (tab, page.beyond_keys()) == (tab, [])
    check_removal_asks_first(page)
    return run


def check_removal_asks_first(page: Page) -> None:
    """The question has the focus, and what was asked about gets it back."""
    page.browser.execute_script("arguments[0].focus()", page.button("remove"))
    page.press(Keys.ENTER)
    page.until(lambda: page.focused() == "keep it")
    page.press(Keys.ENTER)
    page.until(lambda: page.focused() == "remove")


def check_where_a_letter_stops(page: Page, engine: FakeEngine, url: str) -> None:
    """A line that a pattern rejected is shown up to where it matches."""
    letters = engine.state("security/ssh").dead_letters
    letter = {"time": "2026-01-31T10:00:00.000000Z", "at": "steps[0] grok", "code": "grok-failed", "reason": "no match"}
    letters.parent.mkdir(parents=True, exist_ok=True)
    letters.write_text(json.dumps({**letter, "offset": 0, "event": "Failed password from nowhere"}) + "\n")
    page.browser.get(f"{url}/pipelines/security/ssh")
    page.until(lambda: page.button("Dead letters")).click()
    page.until(lambda: page.find(".letters pre .matched").text.strip() == "Failed password from")
    assert "expected %{IP:source.ip}" in page.find(".letters .why").text
    assert page.violations() == []
    letters.unlink()
    page.browser.get(f"{url}/pipelines/web/users")
    page.until(lambda: page.all(".graph-node"))


def replay_dead_letter(page: Page, engine: FakeEngine, run: FakeRun) -> None:
    """A replay stops the run and starts another."""
    write_dead_letter(engine)
    page.link("Dead letters").click()
    page.until(lambda: HOSTILE in page.find(".letters pre").text)
    page.until(lambda: page.button("Replay 1 letter")).click()
    page.until(lambda: page.button("Replay begun"))
    assert page.violations() == []
    engine.replays[-1].stop()
    page.until(lambda: next(one for one in engine.runs[::-1] if one.name == "web/users") is not run)


def write_dead_letter(engine: FakeEngine, offset: int = 0) -> None:
    letter = {"time": "2026-01-31T10:00:00.000000Z", "at": "steps[0] json", "code": "json-failed", "reason": "is not JSON"}
    engine.state("web/users").dead_letters.write_text(json.dumps({**letter, "offset": offset, "event": HOSTILE}) + "\n")


def try_dead_letter(page: Page) -> None:
    """The studio reads the letter as a line, and its text does nothing."""
    page.link("Pipelines").click()
    page.until(lambda: page.all(".pipelines"))
    page.link("Dead letters").click()
    page.until(lambda: HOSTILE in page.find(".letters pre").text)
    page.button("Try with the pipeline as it is now").click()
    page.until(lambda: page.all(".lines li.dead"))
    assert page.browser.title == "Studio · Sluice"


def drop_dead_letter(page: Page, engine: FakeEngine) -> None:
    """The letters of a group appear when asked for, and a drop asks before it settles them."""
    page.browser.back()
    page.until(lambda: HOSTILE in page.find(".letters pre").text)
    page.find(".letters summary").click()
    page.until(lambda: HOSTILE in page.find(".letter-list pre").text)
    assert "These are the last ones" in page.find(".letters details").text
    page.until(lambda: page.button("Export"))
    assert page.beyond_keys() == []
    page.browser.execute_script("arguments[0].focus()", page.button("Drop…"))
    page.press(Keys.ENTER)
    page.until(lambda: page.focused() == "Keep")
    assert page.violations() == []
    page.press(Keys.ENTER)
    page.until(lambda: page.focused() == "Drop…")
    page.press(Keys.ENTER)
    page.button("Drop 1 letter: no replay gets them").click()
    page.until(lambda: not engine.state("web/users").dead_letters.exists())
    page.until(lambda: not page.all(".letter-list"))
    write_dead_letter(engine, offset=1)


def check_near_thresholds(page: Page, url: str) -> None:
    page.browser.get(f"{url}/pipelines/security/logins")
    page.until(lambda: page.button("Near thresholds")).click()
    page.until(lambda: len(page.all(".near tbody tr")) == 2)
    assert [row.text.split()[:2] for row in page.all(".near tbody tr")] == [["80", "%"], ["60", "%"]]
    assert HOSTILE in page.find(".near tbody tr").text
    assert "Line 4: a result is given only if `having` is true of it. 3 groups, of which 1 meet" in page.find(".card .note").text
    assert page.violations() == []
    with page.on_a_phone_in_the_dark():
        assert (page.violations(), page.wider()) == ([], [])


def check_rule_editor(page: Page) -> None:
    page.link("Rules").click()
    page.until(lambda: page.all(".empty"))
    page.until(lambda: "1 rule, 0 problems, 2 tests, 0 failed" in page.find(".rule-editor").text)
    page.until(lambda: page.all(".cm-content"))
    write(page, "name: x\nwhere: a = 1\ntests: [{event: {a: 2}}]")
    page.until(lambda: "1 test, 1 failed" in page.find(".rule-editor").text)
    assert "it does not fire" in page.find(".rule-editor td.bad").text
    assert page.beyond_keys() == []
    write(page, f"name: x\nwhere: foo(\ntitle: {HOSTILE}")
    page.until(lambda: "line 2: a bracket ')' is missing" in page.find(".rule-editor").text)
    assert page.violations() == []


def check_screens_on_a_phone(page: Page, url: str) -> None:
    with page.on_a_phone_in_the_dark():
        for path, selector, title in (
            ("/", ".pipelines tbody tr", "Pipelines"),
            ("/pipelines/web/users", ".graph-node", "web/users"),
            ("/dead-letters", ".letters pre", "Dead letters"),
            ("/rules", ".empty", "Rules"),
            ("/studio", ".cm-content", "Studio"),
        ):
            page.browser.get(f"{url}{path}")
            page.until(lambda selector=selector: page.all(selector))
            assert page.browser.title == f"{title} · Sluice"
            assert (path, page.violations()) == (path, [])
            assert (path, page.wider()) == (path, [])


def stop_pipeline(page: Page, url: str) -> None:
    page.browser.get(url)
    page.until(lambda: page.all("[aria-label='stop web/users']"))[0].click()
    page.until(lambda: "stopped" in page.find(".pipelines").text)
