"""The `journald` source on files that systemd writes, compared with what `journalctl` prints."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from journal_writer import JournalWriter
from servers import debian
from servers.cache import MissingError

from connectors.journald.source import JournaldSource
from etl.api import Limit, Rejects

PACKAGES = ("systemd-journal-remote", "systemd")


@pytest.fixture(scope="module")
def tools() -> Iterator[tuple[str, str, dict[str, str]]]:
    """systemd-journal-remote, journalctl, and the environment for them."""
    remote = shutil.which("systemd-journal-remote", path="/lib/systemd:/usr/lib/systemd")
    control = shutil.which("journalctl")
    if remote and control:
        yield remote, control, {}
        return
    try:
        tree = debian.unpacked("systemd", PACKAGES)
        yield str(tree.find("**/lib/systemd/systemd-journal-remote")), str(tree.find("**/bin/journalctl")), tree.environment()
    except MissingError as error:
        pytest.skip(f"systemd's tools for journals cannot be had: {error}")


def export(entries: int) -> bytes:
    """Entries in the Journal Export Format, with binary, repeated and long values."""
    texts = (b"plain %d", b"bin\xff\xfe\x00 %d", b"two\nlines %d", "größe €😀 %d".encode(), b"long " * 400 + b"%d")
    found = []
    for n in range(entries):
        fields = [(b"_HOSTNAME", b"web1"), (b"PRIORITY", b"%d" % (n % 8)), (b"TAG", b"a%d" % n), (b"TAG", b"b")]
        fields += [
            (b"MESSAGE", texts[n % 5] % n),
            (b"BLOB", bytes(range(256)) * (n % 7)),
            (b"_SYSTEMD_UNIT", b"u%d.service" % (n % 3)),
        ]
        times = (1_700_000_000_000_000 + n * 1000, n * 1000 + 5)
        found.append(b"__REALTIME_TIMESTAMP=%d\n__MONOTONIC_TIMESTAMP=%d\n_BOOT_ID=0123456789abcdef0123456789abcdef\n" % times)
        found += [name + b"\n" + struct.pack("<Q", len(value)) + value + b"\n" for name, value in fields]
        found.append(b"\n")
    return b"".join(found)


def printed(control: str, environment: dict[str, str], path: Path, *options: str) -> list[dict[str, Any]]:
    command = [control, "--all", "--file", str(path), "--output", "json", *options]
    lines = subprocess.run(
        command, capture_output=True, check=True, env=os.environ | environment, timeout=300
    ).stdout.splitlines()
    return [json.loads(line) for line in lines]


def events(path: Path, **options: Any) -> list[dict[str, Any]]:
    """Events in the form of journalctl."""
    heads = {"__CURSOR": "string", "__REALTIME_TIMESTAMP": "bigint", "__MONOTONIC_TIMESTAMP": "bigint"}
    source = JournaldSource.model_validate({"path": str(path), "fields": heads, "rest": "rest", **options})
    start = source.start()
    found = []
    for split in source.splits(start, source.latest(start, Limit(1 << 62)), 2):
        for batch in source.read(split):
            assert not isinstance(batch, Rejects)
            found += [json.loads(row["rest"]) | {name: str(row[name]) for name in heads} for row in batch.to_pylist()]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("compact", ["0", "1"])
def test_files_of_systemd_give_what_journalctl_prints(
    tmp_path: Path, tools: tuple[str, str, dict[str, str]], compact: str
) -> None:
    remote, control, environment = tools
    path = tmp_path / "remote.journal"
    given = os.environ | environment | {"SYSTEMD_JOURNAL_COMPACT": compact}

    subprocess.run([remote, f"--output={path}", "-"], input=export(500), check=True, env=given, capture_output=True, timeout=300)

    assert events(path) == printed(control, environment, path)
    assert len(events(path)) == 500
    assert events(path, units=["u1"]) == printed(control, environment, path, "--unit", "u1") != []
    assert events(path, priority="err") == printed(control, environment, path, "--priority", "err") != []


@pytest.mark.slow
@pytest.mark.parametrize("compression", [None, "xz", "lz4", "zstd"])
def test_journalctl_reads_the_files_of_these_tests(
    tmp_path: Path, tools: tuple[str, str, dict[str, str]], compression: Any
) -> None:
    _, control, environment = tools
    writer = JournalWriter(tmp_path / "own.journal", compression=compression, compact=compression == "zstd")
    for number in range(50):
        writer.append(("MESSAGE", f"{number} " + "text " * (number * 10)), ("TAG", "a"), ("TAG", "b"))

    shown = printed(control, environment, writer.path)

    assert len(shown) == 50
    assert [{name: value for name, value in row.items() if name != "_BOOT_ID"} for row in shown] == events(writer.path)
