"""The `file` source over objects of an S3 server."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem
from servers.object_store import ObjectStore

from connectors.file.objects import object_path, object_scan
from connectors.file.objects.object_path import ObjectPath, file_system, store_of, without_options
from connectors.file.objects.object_scan import list_objects
from connectors.file.source import FileSource
from etl.api import Limit, Offset, Rejects

BUCKET = "logs"


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    with ObjectStore() as started:
        yield started


@pytest.fixture
def address(store: ObjectStore) -> str:
    return store.address


@pytest.fixture
def s3(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name, value in store.login.items():
        monkeypatch.setenv(name, value)
    client = store.client()
    client.create_bucket(Bucket=BUCKET)
    yield client
    for one in client.list_objects_v2(Bucket=BUCKET).get("Contents", ()):
        client.delete_object(Bucket=BUCKET, Key=one["Key"])
    object_scan._listings.clear()
    file_system.cache_clear()


class Run:
    """A query over one source."""

    def __init__(self, address: str, pattern: str, **options: Any) -> None:
        path = f"s3://{BUCKET}/{pattern}?endpoint_override={address}&scheme=http"
        self.source = FileSource(path=path, **{"rescan": timedelta(microseconds=1), **options})
        self.offset: Offset = json.loads(json.dumps(self.source.start()))

    def next(self, **limit: Any) -> list[Any]:
        """Texts of the next micro-batch, and codes of dead letters; the batch is read twice, as after a failure."""
        end = json.loads(json.dumps(self.source.latest(self.offset, Limit(**{"max_bytes": 1 << 40, **limit}))))
        first, again = self._read(end), self._read(end)
        self.offset = end
        assert first == again
        return first

    def _read(self, end: Offset) -> list[Any]:
        found: list[Any] = []
        for split in self.source.splits(self.offset, end, 2):
            for batch in self.source.read(split):
                found += [batch.code] if isinstance(batch, Rejects) else batch.column("message").to_pylist()
        return found


def put(s3: Any, key: str, text: str | bytes) -> None:
    s3.put_object(Bucket=BUCKET, Key=key, Body=text)


def test_the_name_of_an_object_is_no_option_of_the_connection(s3: Any, address: str) -> None:
    put(s3, "q/a?endpoint_override=evil.example:1&scheme=http", "one\n")
    run = Run(address, "q/*")

    assert run.next() == ["one"]
    assert run.next() == []
    named = ObjectPath("s3", "", "logs/*", "").uri("logs/a?endpoint_override=evil.example:1")
    assert ObjectPath.of(named) == ObjectPath("s3", "", "logs/a?endpoint_override=evil.example:1", "")
    assert without_options(named) == "s3://logs/a?endpoint_override=evil.example:1"


def test_a_container_of_azure_stands_before_its_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "logs" / "a").mkdir(parents=True)
    (tmp_path / "logs" / "a" / "1.log").write_text("one\n")
    opened: list[tuple[str, str, str]] = []

    def account(*place: str) -> Any:
        opened.append(place)  # type: ignore[arg-type]
        return SubTreeFileSystem(str(tmp_path), LocalFileSystem())

    monkeypatch.setattr(object_path, "file_system", account)
    found = list(list_objects("abfss://logs@acc.dfs.core.windows.net/**/*.log"))
    uri = ObjectPath.of("abfss://logs@acc.dfs.core.windows.net/**/*.log").uri(found[0].path)

    assert [one.path for one in found] == ["acc.dfs.core.windows.net/a/1.log"]
    assert uri == "abfss://logs@acc.dfs.core.windows.net/a/1.log"
    assert store_of(uri)[1] == "logs/a/1.log"
    assert set(opened) == {("abfss", "logs@acc.dfs.core.windows.net", "")}


def test_objects_are_read_once_and_new_ones_later(s3: Any, address: str) -> None:
    put(s3, "a/1.log", "one\ntwo\n")
    run = Run(address, "a/*.log")

    assert run.next() == ["one", "two"]
    assert run.next() == []
    put(s3, "a/0.log", "before it by name, without a newline")
    put(s3, "a/x.txt", "another ending")
    put(s3, "a/below/2.log", "another folder")
    assert run.next() == ["before it by name, without a newline"]
    assert run.next() == []
    assert run.offset["files"] == {}


@pytest.mark.slow
def test_compressed_objects_below_any_folder(s3: Any, address: str) -> None:
    put(s3, "AWSLogs/1/2026/11/a.json.gz", gzip.compress(b"1\n2\n"))
    put(s3, "AWSLogs/2/2026/12/b.json.gz", gzip.compress(b"3\n"))
    put(s3, "AWSLogs/2/2025/12/c.json.gz", gzip.compress(b"old\n"))
    put(s3, "AWSLogs/2/2026/12/broken.json.gz", gzip.compress(b"4\n" * 9999)[:-30])

    run = Run(address, "AWSLogs/*/2026/**/[ab].json.gz", path_field="path")
    assert sorted(run.next()) == ["1", "2", "3"]
    assert sorted(Run(address, "AWSLogs/**", exclude=("*broken*",)).next()) == ["1", "2", "3", "old"]
    assert "corrupt-archive" in Run(address, "AWSLogs/*/*/*/broken*").next()


@pytest.mark.slow
def test_large_objects_are_divided_at_lines(s3: Any, address: str) -> None:
    lines = [f"{number} {'x' * 1000}" for number in range(20_000)]
    put(s3, "large.log", "\n".join(lines))
    run = Run(address, "large.log")

    end = run.source.latest(run.offset, Limit(max_bytes=1 << 40))
    splits = run.source.splits(run.offset, end, 4)
    assert len(splits) == 4
    assert run.next() == lines


@pytest.mark.slow
def test_a_limit_divides_objects_over_micro_batches(s3: Any, address: str) -> None:
    for number in range(3):
        put(s3, f"{number}.log", "".join(f"{number} {line}\n" for line in range(100)))
    run = Run(address, "*.log")

    batches = [run.next(max_bytes=400) for _ in range(30)]
    found = [text for batch in batches for text in batch]
    assert len(batches[0]) < 300
    assert sorted(found) == sorted(f"{number} {line}" for number in range(3) for line in range(100))


def test_an_object_that_is_written_again_is_read_again(s3: Any, address: str) -> None:
    put(s3, "x.log", "first\n")
    run = Run(address, "x.log")
    assert run.next() == ["first"]

    put(s3, "x.log", "second time\n")

    assert run.next() == ["second time"]


def test_an_object_that_is_removed_between_planning_and_reading_is_a_dead_letter(s3: Any, address: str) -> None:
    put(s3, "x.log", "text\n")
    run = Run(address, "x.log")
    end = run.source.latest(run.offset, Limit(max_bytes=1 << 40))
    splits = run.source.splits(run.offset, end, 1)

    s3.delete_object(Bucket=BUCKET, Key="x.log")

    (found,) = [batch for split in splits for batch in run.source.read(split)]
    assert isinstance(found, Rejects)
    assert found.code == "data-lost"
    assert "s3://logs/x.log was removed" in str(found.reasons)
    assert "endpoint_override" not in str(found.reasons)


def test_start_end_reads_what_comes_later(s3: Any, address: str) -> None:
    put(s3, "old.log", "old\n")
    run = Run(address, "*.log", start="end")
    put(s3, "new.log", "new\n")

    assert run.next() == ["new"]


def test_a_store_that_is_followed_is_listed_once_within_rescan(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    listed: list[str] = []
    monkeypatch.setattr(object_scan, "list_objects", lambda uri, exclude: iter(listed.append(uri) or ()))
    often, seldom = Run(address, "often/*.log"), Run(address, "seldom/*.log", rescan=timedelta(hours=1))

    for _ in range(3):
        assert (often.next(), seldom.next()) == ([], [])
    assert [len([uri for uri in listed if folder in uri]) for folder in ("often", "seldom")] == [3, 1]

    seldom.next(bounded=True)
    assert len(listed) == 5, "a bounded run does not read an old listing"


def test_objects_that_are_older_than_late_are_not_read(s3: Any, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = [object_scan.StoredObject(f"{BUCKET}/{name}.log", 2, written) for name, written in [("a", 7200.0), ("b", 9000.0)]]
    monkeypatch.setattr(object_scan, "list_objects", lambda *_: iter(stored))
    run = Run(address, "*.log", late=timedelta(hours=1))
    first = run.source.latest(run.offset, Limit(max_bytes=1 << 40))
    assert len(first["files"]) == 2

    stored += [object_scan.StoredObject(f"{BUCKET}/{name}.log", 2, at) for name, at in [("late", 5500.0), ("too-late", 5399.0)]]

    second = run.source.latest(first, Limit(max_bytes=1 << 40))
    assert [file["path"].partition("?")[0] for file in second["files"].values()] == ["s3://logs/late.log"]
    assert set(second["read"]) == {one.key for one in stored[:2]}


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("s3://key:secret@logs/*.log", "login-in-path"),
        ("abfss://logs:secret@acc.dfs.core.windows.net/*.log", "login-in-path"),
        ("abfss://acc.dfs.core.windows.net/logs/*.log", "no-bucket"),
        ("s3://*/x.log", "no-bucket"),
        ("s3://logs", "no-bucket"),
    ],
)
def test_addresses_that_cannot_work_are_findings_without_secrets(path: str, code: str) -> None:
    (finding,) = FileSource(path=path).check()

    assert finding.code == code
    assert "secret" not in finding.message


def test_a_store_that_cannot_be_reached_is_a_finding(s3: Any, address: str) -> None:
    assert Run(address, "nothing/*.log").source.probe().__iter__().__next__().code == "no-files"  # type: ignore[attr-defined]
    assert "no object matches 's3://logs/nothing/*.log'" in Run(address, "nothing/*.log").source.explain_no_events(None)
    assert not FileSource(path="s3://logs/*.log").host_bound
    assert not FileSource(path="s3://logs/*.log").probes_here  # a run waits for a store, and need not ask for it at its start
    assert FileSource(path="s3://logs/*.log").reads("s3://logs/a.log")


def test_a_prefix_is_one_glob_for_listings_and_notifications(s3: Any, address: str) -> None:
    for key in ("p1.log", "p/2.log", "p/q/3.log", "o/4.log"):
        put(s3, key, key)
    run = Run(address, "p*/**")

    assert sorted(run.next()) == ["p/2.log", "p/q/3.log", "p1.log"]
    assert [run.source.reads(f"s3://{BUCKET}/{key}") for key in ("p1.log", "p/q/3.log", "o/4.log")] == [True, True, False]
