"""The list of a server with very many pipelines, in a real browser."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from browsers import Page, chromium, needs_chromium
from fake_engine import FakePrepared
from jobs_and_client import LOOPBACK, Jobs
from running import wait_for

from etl.config.loader import inspect_content
from etl.config.model import Pipeline
from etl.receipts import Counts
from etl.server.app import create_app
from etl.server.jobs_folder import JobFile
from etl.server.listening import listening
from etl.server.studio.standalone import server_pages
from etl.server.studio.worker_process import WorkerProcess
from etl.spark.reports.totals import SourceLag

MANY = 400
"""Pipelines of the server. When each event of the server rendered all rows, a browser did not answer for minutes with 300."""


def add_pipelines(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many pipelines with the same text, whose files are not checked, and one that is refused."""
    text = jobs.text().encode()
    pipeline = inspect_content(jobs.folder / "a.yaml", text, {}).pipeline
    assert pipeline is not None
    check = jobs.engine.prepare

    def prepare(name: str, file: JobFile, others: Sequence[Pipeline]) -> FakePrepared:
        if name.endswith("refused"):
            return check(name, file, ())
        return FakePrepared(jobs.engine, replace(pipeline, name=name), (), file)

    monkeypatch.setattr(jobs.engine, "prepare", prepare)
    for number in range(MANY):
        jobs.put(f"shop/p{number:03}", text.decode())
    jobs.put("shop/refused", "source: {type: fiel}\n")
    jobs.put("outside", text.decode())
    jobs.server.start()
    wait_for(lambda: sum(job.status == "running" for job in jobs.server.jobs()) == MANY)


@pytest.mark.slow
@needs_chromium
def test_the_list_of_very_many_pipelines_answers_on_a_desk_and_on_a_phone(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    add_pipelines(jobs, monkeypatch)
    first = jobs.run("shop/p000")
    first.totals.read["main"] = Counts(5, 5)
    first.totals.lags["main", "main"] = SourceLag(7, 0.0, 2048)
    worker = WorkerProcess()
    app = create_app(jobs.server, pages=server_pages(worker))
    with listening(app, LOOPBACK) as address, chromium() as browser:
        page = Page(browser)
        browser.get(f"http://{address.host}:{address.port}/")
        page.until(lambda: len(page.all(".pipelines tbody tr")) == MANY + 1)
        page.until(lambda: app.state.events.viewers)
        page.button("only those in trouble").click()
        page.until(lambda: [one.text for one in page.all(".pipelines .name")] == ["shop/refused"])
        assert not page.all(".pipelines tbody button"), "a pipeline without a version cannot start"
        page.button("only those in trouble").click()
        page.find("input[type=search]").send_keys("p000")
        page.until(lambda: len(page.all(".pipelines tbody tr")) == 1)
        page.until(lambda: [one.text for one in page.all(".refused-files code")] == ["outside.yaml"])
        assert "in no namespace" in page.find(".refused-files").text
        assert page.violations() == []
        (jobs.folder / "outside.yaml").unlink()
        page.until(lambda: not page.all(".refused-files"))

        with page.on_a_phone_in_the_dark():
            state = page.find(".pipelines .tag")
            assert (state.text, page.wider()) == ("running", [])
            assert state.rect["x"] + state.rect["width"] < 390
            studio = page.link("Studio").rect
            assert studio["x"] + studio["width"] < 390

        page.link("shop/p000").click()
        page.until(lambda: "7 events, 2 KiB waiting" in page.find(".counters").text)
        assert browser.title == "shop/p000 · Sluice"
        errors = [one["message"] for one in browser.get_log("browser") if one["level"] == "SEVERE"]
    worker.close()

    assert errors == []
