"""The command `etl dead` for a pipeline of a server, without Spark."""

from __future__ import annotations

import itertools
import json
import threading
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from jobs_and_client import Client, Jobs
from running import wait_for
from test_api_letters import A, write_letters

from etl.cli.dead import server_letters
from etl.cli.main import cli
from etl.running.dead_letters.replay import history
from etl.server.boards import shared_answers

pytestmark = pytest.mark.filterwarnings("error")


class Dead:
    """Calls ``etl dead`` in this process for ``shop/a`` of a server."""

    def __init__(self, url: str) -> None:
        self.url = url

    def __call__(self, verb: str, *words: object, name: str = "shop/a") -> Result:
        return CliRunner().invoke(cli, ["dead", verb, name, *map(str, words), "--server", self.url])


@pytest.fixture
def dead(jobs: Jobs, client: Client, monkeypatch: pytest.MonkeyPatch) -> Dead:
    monkeypatch.setattr("etl.cli.dead.server_letters.POLL_SECONDS", 0.01)
    client("PUT", A, jobs.text())
    return Dead(f"http://{client.address.host}:{client.address.port}")


@pytest.fixture
def letters(jobs: Jobs) -> Path:
    """The file of the pipeline's dead letters."""
    return jobs.engine.state("shop/a").dead_letters


def test_letters_are_counted_by_the_server(dead: Dead, letters: Path) -> None:
    write_letters(letters, (f"e{n}" for n in range(30)))
    write_letters(letters, ["x"], code="too-large", at="sink main", reason="has 9 bytes")
    write_letters(letters, ["y"], code="too-large", at="sink main", reason="has 8 bytes")

    rows = [json.loads(line) for line in dead("count", "--format", "json").stdout.splitlines()]

    assert [(row["events"], row["at"], row["code"], row["reasons"], row["example"]) for row in rows] == [
        (30, "steps[0] grok", "grok-failed", 1, "e0"),
        (2, "sink main", "too-large", 2, "x"),
    ]
    ran = dead("count", "--at", "sink main")
    assert ("steps[0]" in ran.stdout, "has 9 bytes" in ran.stdout, ran.stderr) == (False, True, "2 dead letters\n")
    rows = [json.loads(line) for line in dead("count", "--format", "json", "--where", "event = 'e7'").stdout.splitlines()]
    assert [row["events"] for row in rows] == [1]


def test_the_last_letters_are_shown(dead: Dead, letters: Path) -> None:
    write_letters(letters, (f"e{n}" for n in range(30)))

    ran = dead("show", "--limit", 2, "--format", "json", "--where", "event <> 'e29'", "--since", "2026-01-31")

    assert [json.loads(line)["event"] for line in ran.stdout.splitlines()] == ["e27", "e28"]
    assert dead("show", "--until", "2026-01-31").stderr == "0 dead letters\n"


def test_what_failed_again_is_shown_with_its_history(dead: Dead, letters: Path, jobs: Jobs) -> None:
    import pyarrow as pa

    from etl.running.dead_letters.letter_files import LETTERS, letter_files
    from etl.running.state_folders import dead_letters

    write_letters(letters, ["e"], reason="was bad before")
    state = jobs.engine.state("shop/a")
    pipeline = jobs.server.jobs()[0].pipeline
    assert pipeline is not None
    (batch,) = letter_files(dead_letters(pipeline, state))[0].batches()
    folder = state.root / "dead" / "replays" / "0001"
    folder.mkdir(parents=True)
    with pa.ipc.new_file(str(folder / "replay-0001-1.arrow"), LETTERS) as file:
        file.write_batch(batch)
    write_letters(letters, ["e"], source="replay-0001-1", offset=0, reason="is bad again")

    shown = dead("show").stdout

    assert "before: 2026-01-31T10:00:00.000000Z  steps[0] grok  grok-failed: was bad before" in shown
    assert "is bad again" in shown
    (folder.parent.parent / "replay-0001-1.arrow").write_bytes((folder / "replay-0001-1.arrow").read_bytes())
    for source in ("replay-../x-1", "replay-..-1", "replay-0001-1/../replay-0001-1", "main"):
        assert history(state, source, 0) == []


def test_letters_are_exported(dead: Dead, letters: Path, tmp_path: Path) -> None:
    write_letters(letters, ["a", "b\nc", "d"])

    assert dead("export", tmp_path / "out.parquet").stderr.startswith("3 dead letters in ")
    assert pq.read_table(tmp_path / "out.parquet").column("event").to_pylist() == ["a", "b\nc", "d"]
    assert "1 are left out" in dead("export", tmp_path / "out.log").stderr
    assert (tmp_path / "out.log").read_text() == "a\nd\n"


def test_letters_are_dropped_by_the_server(dead: Dead, letters: Path) -> None:
    write_letters(letters, ["a1", "a2", "b"])

    ran = dead("drop", "--text", "a", "--yes")

    assert (ran.exit_code, ran.stderr.count("2 dead letters")) == (0, 1), ran.output
    assert dead("count").stderr == "1 dead letter\n"


def test_a_replay_is_followed_to_its_end(dead: Dead, letters: Path, jobs: Jobs) -> None:
    write_letters(letters, ["a"])
    ends = threading.Thread(target=lambda: wait_for(lambda: jobs.engine.replays != []) or jobs.engine.replays[0].stop())
    ends.start()

    ran = dead("replay", "--code", "grok-failed")

    ends.join()
    assert (ran.exit_code, ran.stderr) == (0, "7 letters replayed\n")
    assert jobs.engine.replays[0].letters.code == "grok-failed"
    failed = dead("replay", "--code", "broken")
    assert (failed.exit_code, "the disk is full" in failed.stderr) == (1, True)
    assert "the replay has failed" in str(failed.exception)


def test_a_replay_of_a_pipeline_that_hangs_fails(dead: Dead, letters: Path, jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("etl.server.job.CANCEL_SECONDS", 0.1)
    monkeypatch.setattr("etl.server.job.HANG_SECONDS", 0.1)
    write_letters(letters, ["a"])
    jobs.wait("shop/a", "running")
    run = jobs.run("shop/a")
    run.hangs = run.ignores_cancel = True

    first, second = dead("replay"), dead("drop", "--yes")
    run.end_at_last()

    assert (first.exit_code, "has not begun: its run has not ended" in first.stderr) == (1, True)
    assert (second.exit_code, "its run has not ended: hangs: " in str(second.exception)) == (1, True)
    jobs.wait("shop/a", "running")
    assert jobs.engine.replays == []


def test_the_failure_of_a_replay_is_seen_though_many_viewers_share_older_answers(
    dead: Dead, letters: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_letters(letters, ["a"])
    monkeypatch.setattr(shared_answers, "FREE_PER_SECOND", 0)
    monkeypatch.setattr(shared_answers, "SHARE_SECONDS", 1000.0)
    looks, sleep = itertools.count(), time.sleep

    def pause(_: float) -> None:
        assert next(looks) < 1000, "the status is an old one"
        sleep(0.01)

    monkeypatch.setattr(server_letters.time, "sleep", pause)

    failed = dead("replay", "--code", "broken")

    assert (failed.exit_code, "the disk is full" in failed.stderr) == (1, True)
    assert "the replay has failed" in str(failed.exception)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("replay", "--where", "event = 'a'"), "--where goes with `count`, `show` and `export`"),
        (("drop", "--yes", "--where", "event = 'a'"), "--where goes with `count`, `show` and `export`"),
        (("replay", "--master", "local[2]"), "--master goes with a file"),
        (("count", "--set", "a=1"), "--set and --env-file go with a file"),
        (("count", "--since", "soon"), "--since: 'soon' is not a time"),
    ],
)
def test_what_a_server_cannot_do_is_refused(dead: Dead, letters: Path, words: tuple[str, ...], error: str) -> None:
    write_letters(letters, ["a"])

    ran = dead(*words)

    assert (ran.exit_code, error in ran.stderr) == (2, True), ran.stderr
    assert dead("count").stderr == "1 dead letter\n"


def test_an_unknown_pipeline_is_an_error_of_the_server(dead: Dead) -> None:
    for verb in ("count", "show"):
        assert "there is no pipeline 'shop/b'" in str(dead(verb, name="shop/b").exception)


@pytest.mark.slow
def test_a_pipeline_of_the_server_on_this_machine_is_found_by_its_name(
    dead: Dead, letters: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_letters(letters, ["a"])
    monkeypatch.setenv("ETL_SERVER", dead.url)

    assert CliRunner().invoke(cli, ["dead", "count", "shop/a"]).stderr == "1 dead letter\n"
    missing = CliRunner().invoke(cli, ["dead", "count", "shop.yaml"])
    assert (missing.exit_code, "shop.yaml" in missing.stderr) == (2, True)
