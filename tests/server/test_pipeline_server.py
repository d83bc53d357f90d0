"""What runs follows the folder, and the desired states."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from fake_engine import FakeEngine, FakePrepared
from jobs_and_client import Client, Jobs
from running import wait_for

from etl.api import EtlError
from etl.config.loader import inspect_content
from etl.config.model import Pipeline
from etl.config.problems import ConfigError, Problem
from etl.running.dead_letters.letter_filter import NO_LETTERS, LetterFilter
from etl.running.message_log import read_messages
from etl.running.messages import Message
from etl.server import jobs_folder
from etl.server.jobs_folder import MAX_FILE_BYTES, JobFile, JobsFolder
from etl.server.names import PipelineName
from etl.server.pipeline_server import PipelineServer
from etl.server.records import Versions

A = PipelineName("shop", "a")


def test_files_are_started_replaced_and_stopped(jobs: Jobs) -> None:
    jobs.put("shop/a")
    jobs.server.start()
    jobs.wait("shop/a", "running")
    first = jobs.run("shop/a")

    jobs.put("shop/b")
    jobs.wait("shop/b", "running")
    jobs.put("shop/a", jobs.text("a", "run: {trigger: 1s}\n"))
    wait_for(lambda: jobs.run("shop/a") is not first)
    jobs.wait("shop/a", "running")
    assert first.is_stopped
    assert jobs.server.job(A).running_version == 2

    (jobs.folder / "shop" / "a.yaml").unlink()
    wait_for(lambda: jobs.status("shop/a") == "none" and jobs.engine.runs[-1].is_stopped)
    assert jobs.status("shop/b") == "running"


def test_a_pipeline_that_comes_again_starts_when_its_removed_run_has_ended(jobs: Jobs) -> None:
    jobs.put("shop/a")
    jobs.server.start()
    jobs.wait("shop/a", "running")
    first = jobs.run("shop/a")
    first.hangs = True
    (jobs.folder / "shop" / "a.yaml").unlink()
    jobs.wait("shop/a", "none")

    for wait in ("starting", "none", "starting"):
        if wait == "none":
            (jobs.folder / "shop" / "a.yaml").unlink()
        else:
            jobs.put("shop/a")
        jobs.wait("shop/a", wait)
    assert jobs.engine.runs == [first]
    first.end_at_last()
    jobs.wait("shop/a", "running")

    assert jobs.run("shop/a") is not first
    texts = [entry["message"] for entry in read_messages(jobs.engine.state("shop/a").messages, 100)]
    assert sum("still stops: it starts when that has ended" in text for text in texts) == 2
    assert not any("does not start" in text for text in texts)


def test_a_bad_file_is_refused_and_the_old_one_goes_on(jobs: Jobs) -> None:
    jobs.put("shop/a")
    jobs.server.start()
    jobs.wait("shop/a", "running")
    job, first = jobs.server.job(A), jobs.run("shop/a")

    jobs.put("shop/a", jobs.text("a").replace("filter", "fitler"))
    wait_for(lambda: job.refusal is not None)

    assert job.refusal is not None
    assert [(problem.line, problem.code) for problem in job.refusal.problems] == [(3, "unknown-type")]
    assert (job.status, job.running_version, first.is_stopped) == ("running", 1, False)

    jobs.engine.unfit.add("100d")
    jobs.put("shop/a", jobs.text("a", "run: {trigger: 100d}\n"))
    wait_for(lambda: job.refusal is not None and "does not fit" in job.refusal.reason)
    assert not first.is_stopped

    jobs.put("shop/a", jobs.text("a"))
    wait_for(lambda: job.refusal is None, what="the refusal is gone with its file")
    assert not first.is_stopped


def test_a_version_that_does_not_start_gives_way_to_the_one_before(jobs: Jobs) -> None:
    jobs.put("shop/a")
    jobs.server.start()
    jobs.wait("shop/a", "running")
    job = jobs.server.job(A)
    jobs.engine.broken.add("100d")

    jobs.put("shop/a", jobs.text("a", "run: {trigger: 100d}\n"))
    wait_for(lambda: job.refusal is not None and job.status == "running")

    assert job.refusal is not None
    assert job.refusal.reason == "version 2 does not start: the port is in use"
    assert job.running_version == 1


def test_a_replay_stops_the_run_and_lets_it_go_on(jobs: Jobs) -> None:
    jobs.put("shop/a")
    jobs.server.start()
    jobs.wait("shop/a", "running")
    first = jobs.run("shop/a")

    jobs.server.replay(A, LetterFilter(code="grok-failed"))
    jobs.wait("shop/a", "replaying")
    wait_for(lambda: jobs.engine.replays != [])  # the status says so a moment before
    assert first.is_stopped
    assert [(one.name, one.letters.code) for one in jobs.engine.replays] == [("shop/a", "grok-failed")]
    with pytest.raises(EtlError, match="is going on"):
        jobs.server.replay(A, LetterFilter())
    jobs.engine.replays[0].ends.set()
    jobs.wait("shop/a", "running")
    assert jobs.run("shop/a") is not first

    jobs.server.replay(A, LetterFilter(code="broken"))
    wait_for(lambda: jobs.run("shop/a") is not first and len(jobs.engine.runs) == 3)
    messages = [one["message"] for one in read_messages(jobs.engine.state("shop/a").messages, 10, 0)]
    assert "7 letters replayed" in messages
    assert any("has failed; the next one finishes it: the disk is full" in text for text in messages)

    jobs.wait("shop/a", "running")
    jobs.server.replay(A, LetterFilter())
    jobs.wait("shop/a", "replaying")
    wait_for(lambda: len(jobs.engine.replays) == 3)
    jobs.server.want(A, "stopped")
    jobs.wait("shop/a", "stopped")
    assert jobs.engine.replays[-1].ends.is_set()


def test_what_cannot_start_tries_again(jobs: Jobs) -> None:
    jobs.engine.broken.add("filter")
    jobs.put("shop/a")
    jobs.server.start()
    wait_for(lambda: len(jobs.engine.runs) > 2, what="two further starts")

    jobs.engine.broken.clear()

    jobs.wait("shop/a", "running")


def test_states_and_versions_survive_the_server(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs.put("shop/a")
    jobs.put("shop/b")
    jobs.server.start()
    jobs.wait("shop/a", "running")
    jobs.server.want(A, "stopped")
    jobs.wait("shop/a", "stopped")
    jobs.put("shop/b", "sources: {")
    wait_for(lambda: jobs.server.job(PipelineName("shop", "b")).refusal is not None)
    jobs.server.stop()

    later = Jobs(jobs.folder, jobs.engine, PipelineServer(JobsFolder(jobs.folder), jobs.engine.root, jobs.engine))
    later.server.start()

    assert later.status("shop/a") == "stopped"
    later.wait("shop/b", "running")
    assert later.server.job(PipelineName("shop", "b")).refusal is not None
    later.server.want(A, "running")
    later.wait("shop/a", "running")
    later.server.stop()


def test_a_rollback_is_a_new_version(jobs: Jobs) -> None:
    jobs.server.start()
    texts = [jobs.text("a", f"run: {{trigger: {seconds}s}}\n") for seconds in (1, 2, 3)]
    for text in texts:
        jobs.server.deploy(A, text.encode(), "yaml")

    jobs.server.rollback(A)
    jobs.wait("shop/a", "running")

    assert (jobs.folder / "shop" / "a.yaml").read_text() == texts[1]
    assert [version.number for version in jobs.server.versions.list(A)] == [1, 2, 3, 4]
    jobs.server.rollback(A, 1)
    assert (jobs.folder / "shop" / "a.yaml").read_text() == texts[0]
    with pytest.raises(EtlError, match="shop/a has no version 9; kept are 1 to 5"):
        jobs.server.rollback(A, 9)


def test_pipelines_that_would_write_to_one_file_are_refused(jobs: Jobs) -> None:
    jobs.server.start()
    jobs.server.deploy(A, jobs.text("a").encode(), "yaml")

    with pytest.raises(EtlError, match="shared-target"):
        jobs.server.deploy(PipelineName("shop", "b"), jobs.text("a").encode(), "yaml")

    assert not (jobs.folder / "shop" / "b.yaml").exists()


def test_a_replay_that_did_not_end_goes_on_before_the_pipeline_starts(jobs: Jobs) -> None:
    replay = jobs.engine.state("shop/a").root / "dead" / "replays" / "0001"
    replay.mkdir(parents=True)
    (replay / "portions.json").write_text('[{"name": "replay-0001-1", "at": "sink main", "letters": 7}]')
    jobs.put("shop/a")
    jobs.put("shop/b")
    jobs.server.start()
    jobs.wait("shop/a", "replaying")
    jobs.wait("shop/b", "running")

    (replay / "replay-0001-1.ended").touch()
    jobs.engine.replays[0].ends.set()

    jobs.wait("shop/a", "running")
    assert [(one.name, one.letters) for one in jobs.engine.replays] == [("shop/a", NO_LETTERS)]
    messages = [one["message"] for one in read_messages(jobs.engine.state("shop/a").messages, 100, 0)]
    assert "a replay of dead letters did not end: it goes on, and then the pipeline starts" in messages


def test_files_that_are_not_pipelines_are_named(jobs: Jobs) -> None:
    jobs.put("shop/a")
    jobs.put("shop/a", "", ".sql")
    jobs.put("shop/naïve")
    jobs.put("shop/large", "#" * (1 << 20) + "\n")
    jobs.put("shop/a_test")
    jobs.put("shop/.hidden")
    jobs.put("outside")
    jobs.put("rules", "rules: []\n")
    said: list[Message] = []
    jobs.server.on_message = said.append
    jobs.server.start()

    assert dict(jobs.server.refused_files) == {
        "outside.yaml": "it is in no namespace: put it into a folder of this folder",
        "shop/a.yaml": "a.sql is a pipeline of the same name",
        "shop/large.yaml": "the file is larger than 1 MiB, the limit for pipeline files",
        "shop/naïve.yaml": "'naïve' is not the name of a pipeline: names have letters, digits, '_', '-' and '.', begin with a "
        "letter or digit, and have at most 63 characters",
    }
    files = [message.text.partition(" ")[0] for message in said if message.event == "refused-file"]
    assert sorted(files) == sorted(jobs.server.refused_files), "each is told once"


def test_links_that_lead_nowhere_are_left_out(jobs: Jobs) -> None:
    jobs.put("shop/a")
    for link in (jobs.folder / "loop", jobs.folder / "loop.yaml", jobs.folder / "shop" / "loop.yaml"):
        link.symlink_to(link)

    assert list(jobs.server.folder.read().files) == [A]


def test_of_many_files_only_those_that_have_changed_are_read_again(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"shop/p{number}" for number in range(5)]
    for name in names:
        jobs.put(name)
    folder = jobs.server.folder
    read, paths = jobs_folder._read, list[Path]()

    def read_and_note(path: Path) -> JobFile:
        paths.append(path)
        return read(path)

    monkeypatch.setattr(jobs_folder, "_read", read_and_note)

    folder.read()
    folder.read()
    assert len(paths) == 10, "a file that has just changed can change again in the same tick of its file system's clock"
    monkeypatch.setattr(jobs_folder, "SETTLED_SECONDS", -60.0)
    first = folder.read()
    paths.clear()
    (changed := jobs.folder / "shop" / "p3.yaml").write_bytes(changed.read_bytes().swapcase())
    second = folder.read()

    assert paths == [changed]
    assert [str(name) for name, file in second.files.items() if first.files[name] is not file] == ["shop/p3"]
    assert second.files[PipelineName("shop", "p3")].content == changed.read_bytes()


def test_a_folder_that_cannot_be_read_at_the_start_is_told_and_tried_again(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs.put("far/b")
    said: list[Message] = []
    jobs.server.on_message = said.append
    with monkeypatch.context() as unreadable:
        unreadable.setattr(jobs_folder, "_pipeline_paths", Mock(side_effect=PermissionError(13, "Permission denied")))
        jobs.server.start()
        assert jobs.status("far/b") == "none"
        (reason,) = jobs.server.refused_files.values()
        time.sleep(0.1)  # some looks, which say it once

    jobs.wait("far/b", "running")
    assert dict(jobs.server.refused_files) == {}
    texts = [message.text for message in said if message.event == "refused-file"]
    assert texts == [f"far does not run: {reason}"]
    assert [(message.text, message.pipeline) for message in said if message.event == "deployed"] == [
        ("version 1 is accepted", "far/b")
    ]


def test_a_file_or_folder_that_cannot_be_read_stops_no_pipeline(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("shop/a", "far/b", "shop/gone"):
        jobs.put(name)
    jobs.server.start()
    jobs.wait("far/b", "running")
    list_folder = jobs_folder._pipeline_paths

    def list_unless_far(folder: Path) -> list[Path]:
        if folder.name == "far":
            raise PermissionError(13, "Permission denied")
        return list_folder(folder)

    monkeypatch.setattr(jobs_folder, "_pipeline_paths", list_unless_far)
    jobs.put("shop/a", "#" * ((1 << 20) + 1))
    (jobs.folder / "shop" / "gone.yaml").unlink()
    wait_for(lambda: jobs.status("shop/gone") == "none", what="others are removed after two looks")

    assert dict(jobs.server.refused_files) == {
        "far": "cannot read this folder: Permission denied; its pipelines that run go on, others start when it can be read",
    }
    refusal = jobs.server.job(A).refusal
    assert refusal is not None
    assert refusal.reason == "the file is larger than 1 MiB, the limit for pipeline files"
    assert [jobs.status(name) for name in ("shop/a", "far/b")] == ["running", "running"]


def test_a_defect_in_the_check_of_a_file_refuses_that_file_only(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs.server.start()
    prepare = jobs.engine.prepare

    def prepare_or_fail(name: str, file: JobFile, others: Sequence[Pipeline]) -> FakePrepared:
        if name == "shop/bad":
            raise RuntimeError("a component's defect")
        return prepare(name, file, others)

    monkeypatch.setattr(jobs.engine, "prepare", prepare_or_fail)
    jobs.put("shop/bad")
    jobs.wait("shop/bad", "refused")
    jobs.put("shop/good")
    jobs.wait("shop/good", "running")

    refusal = jobs.server.job(PipelineName("shop", "bad")).refusal
    assert refusal is not None
    assert refusal.reason == "RuntimeError: a component's defect"


@pytest.mark.parametrize(
    "text", ["../x/a", "a/../b", "a/b/c", "/etc/passwd", "a/.b", "a/b.yaml", "a/b_test", "a/b\0", "a/" + "b" * 64, ""]
)
def test_names_lead_nowhere_else(text: str) -> None:
    with pytest.raises(EtlError, match="is not the name of a"):
        PipelineName.parse(text)


def test_the_fake_is_an_engine(engine: FakeEngine) -> None:
    assert engine.state("shop/a").root.is_relative_to(engine.root)


def test_a_micro_batch_that_does_not_end_is_cancelled(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("etl.server.job.CANCEL_SECONDS", 0.1)
    jobs.put("shop/a")
    jobs.server.start()
    jobs.wait("shop/a", "running")
    run = jobs.run("shop/a")
    run.hangs = True

    jobs.server.want(A, "stopped")
    jobs.wait("shop/a", "stopped")

    assert run.is_cancelled


def test_a_run_that_ignores_the_cancel_is_given_up_until_it_ends(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("etl.server.job.CANCEL_SECONDS", 0.1)
    monkeypatch.setattr("etl.server.job.HANG_SECONDS", 0.1)
    jobs.put("shop/a")
    jobs.server.start()
    jobs.wait("shop/a", "running")
    run = jobs.run("shop/a")
    run.hangs = run.ignores_cancel = True

    jobs.server.want(A, "running", restart=True)
    jobs.wait("shop/a", "failed")
    assert jobs.server.job(A).error.startswith("hangs: its code in the driver has not ended 0.1 s after it was cancelled")
    assert jobs.run("shop/a") is run

    run.end_at_last()
    jobs.wait("shop/a", "running")
    assert jobs.run("shop/a") is not run
    assert jobs.server.job(A).error == ""


def test_a_file_whose_check_hangs_is_refused_and_others_go_on(
    jobs: Jobs, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs.put("shop/b")
    jobs.wait("shop/b", "running")
    monkeypatch.setattr("etl.server.engine.CHECK_SECONDS", 0.1)
    monkeypatch.setattr("etl.delivery.call_thread.LONG_SECONDS", 0.1)
    table = tmp_path / "hosts.csv"
    os.mkfifo(table)
    lookup = f'tables: {{hosts: {{type: file, path: "{table}", key: message}}}}\n'
    text = jobs.text("a", lookup).replace("steps:", "steps:\n- {type: lookup, table: hosts, on: message, add: {x: x}}")

    jobs.put("shop/a", text)
    jobs.wait("shop/a", "refused")
    assert [one["status"] for one in client("GET", "/api/pipelines").json["pipelines"]] == ["refused", "running"]
    refused = client("PUT", "/api/pipelines/shop/a", text)
    assert (refused.status, "the check of shop/a hung for" in refused.json["error"]["message"]) == (422, True)

    monkeypatch.setattr("etl.server.engine.CHECK_SECONDS", 60.0)
    writer = os.open(table, os.O_RDWR | os.O_NONBLOCK)
    table.unlink()
    table.write_text("message,x\na,1\n")
    os.write(writer, b"message,x\n")
    os.close(writer)
    jobs.wait("shop/a", "running")


def test_a_check_that_takes_long_counts_when_it_has_ended(
    jobs: Jobs, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("etl.server.engine.CHECK_SECONDS", 0.2)
    monkeypatch.setattr("etl.delivery.call_thread.LONG_SECONDS", 0.1)
    table, goes_on = tmp_path / "hosts.csv", threading.Event()
    table.write_text("message,x\na,1\n")
    lookup = f'tables: {{hosts: {{type: file, path: "{table}", key: message}}}}\n'
    text = jobs.text("a", lookup).replace("steps:", "steps:\n- {type: lookup, table: hosts, on: message, add: {x: x}}")
    checks = []

    def inspect(*args: Any) -> Any:
        checks.append(args)
        assert goes_on.wait(60)
        return inspect_content(*args)

    monkeypatch.setattr("etl.server.engine.inspect_content", inspect)
    refused = client("PUT", "/api/pipelines/shop/a", text)
    assert "if it ends, its result counts: deploy the same file again" in refused.json["error"]["message"]
    other = client("PUT", "/api/pipelines/shop/a", jobs.text("a"))
    assert (other.status, len(checks)) == (422, 1), "no other check begins while it goes on"
    goes_on.set()
    wait_for(lambda: client("PUT", "/api/pipelines/shop/a", text).status == 200)

    assert len(checks) == 1
    assert client("PUT", "/api/pipelines/shop/a", jobs.text("a")).status == 200


def test_a_file_that_was_refused_for_what_is_around_it_is_accepted_later(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("etl.server.pipeline_server.RECHECK_SECONDS", 0.2)
    versions, add, prepare, problems = jobs.server.versions, jobs.server.versions.add, jobs.engine.prepare, []
    problems.append(Problem("a.yaml", 1, 1, "missing-file", "$.tables.hosts.path", "there is no file"))

    def prepare_with_rules(name: str, file: JobFile, others: Sequence[Pipeline]) -> FakePrepared:
        if name == "shop/a" and problems:
            raise ConfigError(problems)
        return prepare(name, file, others)

    def add_unless_full(name: PipelineName, file: JobFile) -> int:
        if name.name == "c" and problems:
            raise OSError(28, "No space left on device")
        return add(name, file)

    monkeypatch.setattr(jobs.engine, "prepare", prepare_with_rules)
    monkeypatch.setattr(versions, "add", add_unless_full)
    jobs.engine.unfit.add("b.log")
    for name in "abc":
        jobs.put(f"shop/{name}")
    jobs.server.start()
    for name in "abc":
        jobs.wait(f"shop/{name}", "refused")
    said = [len(read_messages(jobs.engine.state(f"shop/{name}").messages, 100, 0)) for name in "abc"]

    problems.clear()
    jobs.engine.unfit.clear()

    for name in "abc":
        jobs.wait(f"shop/{name}", "running")
    assert said == [1, 1, 1]


def test_a_version_that_cannot_be_written_to_the_folder_is_none(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs.server.deploy(A, jobs.text("a").encode(), "yaml")
    monkeypatch.setattr(jobs.server.folder, "root", jobs.folder / "a-file")
    (jobs.folder / "a-file").touch()

    for text in (jobs.text("a", "run: {trigger: 1s}\n"), jobs.text("a")):
        with pytest.raises(OSError, match="a-file"):
            jobs.server.deploy(A, text.encode(), "yaml")

    assert [one.number for one in jobs.server.versions.list(A)] == [1]


def test_the_last_version_of_a_file_that_cannot_be_read_runs_after_a_start(jobs: Jobs) -> None:
    jobs.put("shop/a")
    jobs.put("shop/new", jobs.text("new") + " " * MAX_FILE_BYTES)
    Versions(jobs.server.engine.state("x").root.parent).add(A, JobFile(Path("a.yaml"), jobs.text("a").encode()))
    jobs.put("shop/a", jobs.text("a") + " " * MAX_FILE_BYTES)

    jobs.server.start()
    jobs.wait("shop/a", "running")

    job = jobs.server.job(A)
    assert job.refusal is not None
    assert "larger than 1 MiB" in job.refusal.reason
    assert (job.running_version, jobs.status("shop/new")) == (1, "none")
    jobs.put("shop/a", jobs.text("a"))
    wait_for(lambda: job.refusal is None)


def test_a_version_that_does_not_start_is_tried_once_also_after_a_refusal(jobs: Jobs) -> None:
    jobs.put("shop/a")
    jobs.server.start()
    jobs.wait("shop/a", "running")
    job = jobs.server.job(A)
    jobs.put("shop/a", jobs.text("a").replace("filter", "fitler"))
    wait_for(lambda: job.refusal is not None)
    jobs.put("shop/b")
    jobs.wait("shop/b", "running")

    jobs.engine.broken.add("100d")
    jobs.put("shop/a", jobs.text("a", "run: {trigger: 100d}\n"))
    wait_for(lambda: any(b"100d" in run.file.content for run in jobs.engine.runs))
    jobs.wait("shop/a", "running")
    time.sleep(0.2)  # ten looks at the folder

    assert sum(b"100d" in run.file.content for run in jobs.engine.runs) == 1
