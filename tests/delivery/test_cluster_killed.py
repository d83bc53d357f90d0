"""Runs on a Spark cluster whose executors, workers and driver are killed: results are those of a run without."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from running import wait_for
from servers.object_store import ObjectStore
from servers.spark_cluster import SparkCluster

PIPELINE = """
name: clustered
sources:
  logs: {{type: file, path: "file://{shared}/in/*.log"}}
streams:
  parsed:
    from: logs
    steps:
      - {{type: json, fields: {{time: timestamp, user: string, number: bigint}}}}
  counted:
    from: parsed
    steps:
      - {{type: window, time: time, size: 1m, group_by: user, aggregates: {{events: count(*), total: sum(number)}}}}
  firsts:
    from: parsed
    steps:
      - {{type: dedupe, keys: user, time: time, within: 1d}}
sinks:
  all: {{type: file, from: parsed, path: "s3://clustered/all/", format: json}}
  windows: {{type: file, from: counted, path: "file://{shared}/out/windows", format: json}}
  users: {{type: file, from: firsts, path: "file://{shared}/out/users", format: json}}
dead_letters: {{type: file, path: "file://{shared}/out/dead"}}
run: {{max_batch_bytes: 256KB}}
"""
FILES, LINES, USERS, BROKEN = 4, 10_000, 50, 1_000
DYNAMIC = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "1",
    "spark.dynamicAllocation.maxExecutors": "2",
    "spark.dynamicAllocation.executorIdleTimeout": "1s",
}
"""Executors come and go between micro-batches."""
SHORT_LIVES = {"spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xss1m"}
"""Executors live for seconds: the quick compiler alone halves the work of their start."""
LONGEST = 300
"""Longest wait in seconds: all processes of the cluster share two cores with two other test processes."""
MINUTES = "2026-11-01T10:{:02}:{:02}Z"


@pytest.fixture(scope="module")
def cluster() -> Iterator[SparkCluster]:
    with SparkCluster(2) as started:
        yield started


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    with ObjectStore() as started:
        yield started


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.delivery
def test_results_are_exact_while_executors_workers_and_drivers_are_lost(
    cluster: SparkCluster, store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in store.environment.items():
        monkeypatch.setenv(name, value)
    store.client().create_bucket(Bucket="clustered")
    shared = tmp_path / "shared"
    _write_input(shared / "in")
    pipeline = tmp_path / "clustered.yaml"
    pipeline.write_text(PIPELINE.format(shared=shared))

    with _driver(cluster, pipeline, shared, tmp_path / "host-1") as driver:
        _wait_for_batches(driver, shared, 2)
        next(cluster.executors()).send_signal(signal.SIGKILL)
        _wait_for_batches(driver, shared, 5)
        cluster.workers[0].kill()
        _wait_for_batches(driver, shared, 8)
    cluster.add_worker()
    with _driver(cluster, pipeline, shared, tmp_path / "host-2") as finished:
        assert finished.wait(LONGEST) == 0, _log(tmp_path)
    assert _numbers(store) == Counter(range(FILES * LINES))
    assert Counter(map(_key, _events(shared / "out/windows"))) == Counter(_expected_windows())
    assert Counter(event["user"] for event in _events(shared / "out/users")) == Counter(f"u{user}" for user in range(USERS))
    assert len(_events(shared / "out/dead")) == FILES * LINES // BROKEN


def _write_input(folder: Path) -> None:
    """Files of JSON lines, one second of event time in ten lines, with a line that is not JSON after each ``BROKEN``."""
    folder.mkdir(parents=True)
    for file in range(FILES):
        lines = []
        for line in range(LINES):
            number = file * LINES + line
            event = {"time": _time(line), "user": f"u{number % USERS}", "number": number}
            lines.append(json.dumps(event))
            if line % BROKEN == 0:
                lines.append("no json")
        (folder / f"{file}.log").write_text("\n".join(lines) + "\n")


def _time(line: int) -> str:
    return MINUTES.format(line // 600, line // 10 % 60)


def _expected_windows() -> list[tuple[str, str, int, int]]:
    events, totals = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for number in range(FILES * LINES):
        key = MINUTES.format(number % LINES // 600, 0)[:16], f"u{number % USERS}"
        events[key] += 1
        totals[key] += number
    return [(*key, events[key], totals[key]) for key in events]


def _key(event: dict[str, object]) -> tuple[str, object, object, object]:
    return str(event["window_start"])[:16], event["user"], event["events"], event["total"]


@contextmanager
def _driver(cluster: SparkCluster, pipeline: Path, shared: Path, host: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A driver with its own home, temporary and current folder, as on a host of its own. It is killed at the end."""
    (host / "tmp").mkdir(parents=True)
    settings = [word for key, value in (DYNAMIC | SHORT_LIVES).items() for word in ("--conf", f"{key}={value}")]
    run = ["run", str(pipeline), "--once", "--drain", "--master", cluster.address, "--state", f"file://{shared}/state"]
    with (host / "log").open("wb") as log:
        driver = subprocess.Popen(
            [sys.executable, "-m", "etl", *run, *settings],
            cwd=host,
            env=os.environ | {"HOME": str(host), "TMPDIR": str(host / "tmp"), "SLUICE_CACHE": str(cluster.workers[0].cache)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield driver
    finally:
        with suppress(ProcessLookupError):
            os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()


def _wait_for_batches(driver: subprocess.Popen[bytes], shared: Path, batches: int) -> None:
    commits = "state/queries/*/checkpoint/commits/[0-9]*"
    try:
        wait_for(lambda: len([*shared.glob(commits)]) >= batches or driver.poll() is not None, LONGEST)
    except AssertionError as error:
        raise AssertionError(f"{batches} micro-batches were not committed in {LONGEST} s: {_log(shared.parent)}") from error
    assert driver.poll() is None, f"the driver ended before {batches} micro-batches were committed: {_log(shared.parent)}"


def _events(path: Path) -> list[dict[str, object]]:
    files = [path] if path.is_file() else sorted(path.rglob("*"))
    return [json.loads(line) for file in files if file.is_file() for line in file.read_text().splitlines()]


def _numbers(store: ObjectStore) -> Counter[object]:
    client = store.client()
    keys = [one["Key"] for one in client.list_objects_v2(Bucket="clustered").get("Contents", ())]
    texts = [client.get_object(Bucket="clustered", Key=key)["Body"].read().decode() for key in keys]
    return Counter(json.loads(line)["number"] for text in texts for line in text.splitlines())


def _log(folder: Path) -> str:
    return "\n".join(log.read_text()[-3000:] for log in sorted(folder.glob("host-*/log")))
