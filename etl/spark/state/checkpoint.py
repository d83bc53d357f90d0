"""Spark's checkpoint of a query: repairs or refuses damaged files before Spark reads them, and reads the committed offsets.

Spark writes ``offsets/N`` before micro-batch N and ``commits/N`` after it; ``metadata`` holds the query's id, by which sinks
recognise its micro-batches. A query continues after the last of each.

- The last file of ``commits`` can be removed: its micro-batch runs again, as after a crash before the commit. If the next
  micro-batch has begun, the file held only the watermark, which ``offsets`` of that micro-batch repeat: it is rebuilt from there.
- ``metadata`` can be replaced when the last micro-batch is committed: the next ones are new to the sinks under any id.
- A damaged file of ``offsets`` is an error, because nothing else says what was read. The driver writes their checksums.
- Before the first micro-batch, Spark refuses folders that are not empty, where a JVM that was killed may have left the temporary
  file of the first offsets: such files are removed.
"""

from __future__ import annotations

import json
import re
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from etl.api import ComponentError, Offset, replace_file
from etl.plan.query_plan import QueryPlan
from etl.spark.state.folder import StateFolder

_VERSION = re.compile(r"v\d+")
OFFSETS_HEAD = 2
"""Lines of a file of ``offsets``, version and settings, before one line for each read of the query."""

_CHECKSUMS_HEAD = 8
"""Bytes of a Hadoop checksum file before the checksums: ``crc\\0`` and the size of the chunk that each checksum is for."""

_CHUNK = 512
"""Bytes of that chunk, as Hadoop chooses it."""

_KEPT_CHECKSUMS = 20
"""Checksum files that are not removed: Spark keeps the offsets of ten micro-batches or somewhat more."""


def repair_checkpoint(state: StateFolder, query: str) -> list[str]:
    """Repair a query's checkpoint and return notes for the user. Raises ComponentError that names a damaged file."""
    folder = state.checkpoint(query)
    _check_offsets(folder, query)
    _remove_temporary_files(folder)
    return [*_repair_commits(folder, query), *_repair_metadata(folder, query)]


def _repair_commits(folder: Path, query: str) -> Iterator[str]:
    last, begun = last_number(folder / "commits"), last_number(folder / "offsets")
    if last is None:
        return
    file = folder / "commits" / str(last)
    why = damage(file, _is_commit)
    if why and last == begun:
        _remove(file)
        yield f"query {query!r}: {file} was damaged ({why}) and is removed: micro-batch {last} runs again"
    elif why:
        rebuilt = _rebuilt_commit(folder, last) if begun == last + 1 else None
        if rebuilt is None:
            raise ComponentError(_refusal(file, why, query, folder))
        _checksum_file(file).unlink(missing_ok=True)
        replace_file(file, rebuilt.encode())
        yield f"query {query!r}: {file} was damaged ({why}) and is rebuilt from the offsets of micro-batch {begun}"


def _rebuilt_commit(folder: Path, number: int) -> str | None:
    """The text of a commit file, from the offsets of the next micro-batch, which Spark writes after the commit.

    None if the file may have held more than a watermark: with state format 2 it names versions of the state.
    """
    others = [folder / "commits" / str(other) for other in range(number) if (folder / "commits" / str(other)).exists()]
    has_state = (folder / "state").exists()
    if any(damage(other, _is_plain_commit) for other in others) or (has_state and not others):
        return None
    _, settings, *_ = (folder / "offsets" / str(number + 1)).read_text("utf-8").splitlines()
    watermark = json.loads(settings).get("batchWatermarkMs")
    return f'v1\n{{"nextBatchWatermarkMs":{watermark}}}' if isinstance(watermark, int) else None


def _check_offsets(folder: Path, query: str) -> None:
    last, committed = last_number(folder / "offsets"), last_number(folder / "commits")
    if committed is not None and (last is None or last < committed):
        raise ComponentError(_refusal(folder / "offsets" / str(committed), "it is missing", query, folder))
    for number in () if last is None else (last - 1, last):  # Spark reads both for a micro-batch that was interrupted
        file = folder / "offsets" / str(number)
        why = damage(file, _is_offset) if file.exists() else None
        if why:
            raise ComponentError(_refusal(file, why, query, folder))


def _remove_temporary_files(folder: Path) -> None:
    """Remove what a JVM that was killed while it wrote the first offsets has left."""
    for log in (folder / "offsets", folder / "commits"):
        if log.is_dir() and last_number(folder / "offsets") is None:
            for file in log.glob(".*"):
                file.unlink()


def _repair_metadata(folder: Path, query: str) -> Iterator[str]:
    file, begun = folder / "metadata", last_number(folder / "offsets")
    why = damage(file, _is_metadata) if file.exists() else "it is missing"
    if not why or (begun is None and not file.exists()):
        return
    if last_number(folder / "commits") != begun:
        raise ComponentError(_refusal(file, why, query, folder))
    _remove(file)
    file.write_text(json.dumps({"id": str(uuid.uuid4())}))
    yield f"query {query!r}: {file} was damaged ({why}) and is replaced: the query has a new id"


def _refusal(file: Path, why: str, query: str, folder: Path) -> str:
    return (
        f"query {query!r}: checkpoint file {file} is damaged ({why}): restore the state folder from a backup; or remove "
        f"{folder.parent}, and the query starts over at its sources' start, and delivers again what was delivered"
    )


def write_checksum(state: StateFolder, query: str, number: int) -> None:
    """Write the checksum file of the offsets of a micro-batch, and remove that of an old one.

    Without it `repair_checkpoint` finds only damage that leaves no JSON: a full disk is reported by what needs it more.
    """
    folder = state.checkpoint(query)
    file = folder / "offsets" / str(number)
    with suppress(OSError):
        data = file.read_bytes()
        content = b"crc\0" + _CHUNK.to_bytes(4, "big") + _checksums(data, _CHUNK)
        replace_file(_checksum_file(file), content, sync_folder=False, sync=False)
        for log in ("offsets", "commits"):  # those of commits are of releases before
            _checksum_file(folder / log / str(number - _KEPT_CHECKSUMS)).unlink(missing_ok=True)


def planned_at(state: StateFolder, query: str, number: int) -> int | None:
    """When Spark planned a micro-batch, which stays the same when it runs again; microseconds since the epoch."""
    lines = (state.checkpoint(query) / "offsets" / str(number)).read_text("utf-8").splitlines()
    millis = json.loads(lines[1]).get("batchTimestampMs") if len(lines) >= OFFSETS_HEAD else None
    return millis * 1000 if isinstance(millis, int) else None


def committed_batch(state: StateFolder, query: str) -> int:
    """The last micro-batch of a query that is complete, whose state the next one starts with; -1 if there is none."""
    last = last_number(state.checkpoint(query) / "commits")
    return -1 if last is None else last


def last_number(folder: Path) -> int | None:
    """The highest number of a log."""
    return max((int(path.name) for path in folder.iterdir() if path.name.isdigit()), default=None) if folder.is_dir() else None


def _remove(file: Path) -> None:
    for path in (file, _checksum_file(file)):
        path.unlink(missing_ok=True)


# ── Committed offsets ─────────────────────────────────────────────────────────────────────────────


def read_committed_offsets(state: StateFolder, queries: Iterable[QueryPlan]) -> dict[str, Offset]:
    """Source → its committed offset. Sources without one, or with an unknown log format, are left out."""
    return {name: offset for query in queries for read in _last_offsets(state, query.name) for name, offset in read.items()}


def _last_offsets(state: StateFolder, query: str) -> Iterator[dict[str, Offset]]:
    folder = state.checkpoint(query) / "offsets"
    last = last_number(folder)
    if last is not None:
        for line in (folder / str(last)).read_text("utf-8").splitlines()[OFFSETS_HEAD:]:
            found = _parse(line)
            if isinstance(found, dict) and isinstance(found.get("sources"), dict):
                yield found["sources"]


def _parse(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None  # a source that Spark reads itself, or one without an offset yet


# ── Files ─────────────────────────────────────────────────────────────────────────────────────────


def damage(file: Path, is_valid: Callable[[str], bool]) -> str | None:
    """Why a file is not as Spark wrote it; None if no damage is found. Raises ComponentError when it cannot be read."""
    try:
        data = file.read_bytes()
        checksums = _checksum_file(file).read_bytes() if _checksum_file(file).exists() else b""
    except OSError as error:
        raise ComponentError(f"checkpoint file {file} cannot be read: {error.strerror}") from error
    if not data:
        return "it is empty"
    if not _checksums_match(data, checksums):
        return "its checksum does not fit"
    try:
        return None if is_valid(data.decode()) else "its text is none that Spark writes"
    except ValueError:
        return "its text is none that Spark writes"


def _checksum_file(file: Path) -> Path:
    """The file in which Hadoop keeps the checksums of a file, if it does."""
    return file.with_name(f".{file.name}.crc")


def _checksums_match(data: bytes, checksums: bytes) -> bool:
    """Compare the CRC-32 of each chunk, as in Hadoop's ChecksumFileSystem; true for a file without checksums."""
    size = int.from_bytes(checksums[4:_CHECKSUMS_HEAD], "big") if checksums[:4] == b"crc\0" else 0
    if not size:
        return True
    return checksums[_CHECKSUMS_HEAD:] == _checksums(data, size)


def _checksums(data: bytes, size: int) -> bytes:
    """The CRC-32 of each chunk of this size."""
    chunks = (data[at : at + size] for at in range(0, len(data), size))
    return b"".join(zlib.crc32(chunk).to_bytes(4, "big") for chunk in chunks)


def _is_metadata(text: str) -> bool:
    found = json.loads(text)
    return isinstance(found, dict) and isinstance(found.get("id"), str)


def _is_commit(text: str) -> bool:
    head, *rest = text.splitlines()
    return _is_version(head) and all(isinstance(json.loads(line), dict) for line in rest if line)


def _is_plain_commit(text: str) -> bool:
    """Whether it is of version 1, with the watermark alone."""
    head, *rest = text.splitlines()
    return head == "v1" and [set(json.loads(line)) for line in rest if line] == [{"nextBatchWatermarkMs"}]


def _is_offset(text: str) -> bool:
    """Version, settings, and a line for each source, which is a JSON object for ours."""
    head, settings, *offsets = text.splitlines() if text.count("\n") else ("", "")
    parsed: list[Any] = [json.loads(line) for line in (settings, *offsets) if line.startswith("{")]
    return _is_version(head) and bool(offsets) and all(isinstance(one, dict) for one in parsed)


def _is_version(line: str) -> bool:
    return _VERSION.fullmatch(line) is not None
