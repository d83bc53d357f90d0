"""A query's checkpoint, looked at before Spark reads it: a damaged file is named with the way out, or mended where nothing is
lost.

Spark writes ``offsets/N`` before micro-batch N and ``commits/N`` behind it; ``metadata`` holds the query's id, under which sinks
know its micro-batches. A query goes on from the last of each.

- The last file of ``commits`` can be removed: its micro-batch is done again, as after a crash in front of the commit. Where a
  micro-batch behind it was begun and cut off, it holds nothing but the watermark, which ``offsets`` of that micro-batch repeat:
  it is written again from there.
- ``metadata`` can be written anew when the last micro-batch was committed: what comes is new to the sinks under any id.
- ``offsets`` say what was read, and nothing else does.
"""

from __future__ import annotations

import json
import re
import uuid
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from etl.api import ComponentError, replace_file
from etl.spark.state import StateFolder

_VERSION = re.compile(r"v\d+")
_CHUNK_HEAD = 8
"""Bytes of a Hadoop checksum file in front of the sums: ``crc\\0`` and how many bytes each sum is of."""


def mend(state: StateFolder, query: str) -> list[str]:
    """What was mended, for the user. Raises ComponentError that names a damaged file and what can be done."""
    folder = state.checkpoint(query)
    _check_offsets(folder, query)
    return [*_mend_commits(folder, query), *_mend_metadata(folder, query)]


def _mend_commits(folder: Path, query: str) -> Iterator[str]:
    last, begun = _last(folder / "commits"), _last(folder / "offsets")
    if last is None:
        return
    file = folder / "commits" / str(last)
    why = damage(file, _is_commit)
    if why and last == begun:
        _remove(file)
        yield f"query {query!r}: {file} was damaged ({why}) and is removed: micro-batch {last} is done again"
    elif why:
        rebuilt = _rebuilt_commit(folder, last) if begun == last + 1 else None
        if rebuilt is None:
            raise ComponentError(_refusal(file, why, query, folder))
        _sums(file).unlink(missing_ok=True)
        replace_file(file, rebuilt.encode())
        yield f"query {query!r}: {file} was damaged ({why}) and is written again from what micro-batch {begun} began with"


def _rebuilt_commit(folder: Path, number: int) -> str | None:
    """A commit's text, from the offsets of the next micro-batch, which Spark writes only behind it; None where it may have held
    more than a watermark: names of versions of the state, as of format 2."""
    others = [folder / "commits" / str(other) for other in range(number) if (folder / "commits" / str(other)).exists()]
    has_state = (folder / "state").exists()
    if any(damage(other, _is_plain_commit) for other in others) or (has_state and not others):
        return None
    _, settings, *_ = (folder / "offsets" / str(number + 1)).read_text("utf-8").splitlines()
    watermark = json.loads(settings).get("batchWatermarkMs")
    return f'v1\n{{"nextBatchWatermarkMs":{watermark}}}' if isinstance(watermark, int) else None


def _check_offsets(folder: Path, query: str) -> None:
    last, committed = _last(folder / "offsets"), _last(folder / "commits")
    if committed is not None and (last is None or last < committed):
        raise ComponentError(_refusal(folder / "offsets" / str(committed), "it is missing", query, folder))
    for number in () if last is None else (last - 1, last):  # of one that was cut off Spark reads where it began, too
        file = folder / "offsets" / str(number)
        why = damage(file, _is_offset) if file.exists() else None
        if why:
            raise ComponentError(_refusal(file, why, query, folder))


def _mend_metadata(folder: Path, query: str) -> Iterator[str]:
    file, begun = folder / "metadata", _last(folder / "offsets")
    why = damage(file, _is_metadata) if file.exists() else "it is missing"
    if not why or (begun is None and not file.exists()):
        return
    if _last(folder / "commits") != begun:
        raise ComponentError(_refusal(file, why, query, folder))
    _remove(file)
    file.write_text(json.dumps({"id": str(uuid.uuid4())}))
    yield f"query {query!r}: {file} was damaged ({why}) and is made anew: the query goes on under another id"


def _refusal(file: Path, why: str, query: str, folder: Path) -> str:
    return (
        f"query {query!r}: checkpoint file {file} is damaged ({why}): restore the state folder from a backup; or remove "
        f"{folder.parent}, and the query begins anew at its sources' start, and delivers again what was delivered"
    )


def _last(folder: Path) -> int | None:
    """The highest number of a log."""
    return max((int(path.name) for path in folder.iterdir() if path.name.isdigit()), default=None) if folder.is_dir() else None


def _remove(file: Path) -> None:
    for path in (file, _sums(file)):
        path.unlink(missing_ok=True)


# ── Files ─────────────────────────────────────────────────────────────────────────────────────────


def damage(file: Path, is_sound: Callable[[str], bool]) -> str | None:
    """Why a file is not what Spark wrote; None where nothing speaks against it. Raises ComponentError when it cannot be read."""
    try:
        data = file.read_bytes()
        sums = _sums(file).read_bytes() if _sums(file).exists() else b""
    except OSError as error:
        raise ComponentError(f"checkpoint file {file} cannot be read: {error.strerror}") from error
    if not data:
        return "it is empty"
    if not _sums_fit(data, sums):
        return "its checksum does not fit"
    try:
        return None if is_sound(data.decode()) else "its text is none that Spark writes"
    except ValueError:
        return "its text is none that Spark writes"


def _sums(file: Path) -> Path:
    """Where Hadoop keeps the checksums of a file, if it does."""
    return file.with_name(f".{file.name}.crc")


def _sums_fit(data: bytes, sums: bytes) -> bool:
    """CRC-32 of each chunk, as in Hadoop's ChecksumFileSystem; a file without sums fits."""
    size = int.from_bytes(sums[4:_CHUNK_HEAD], "big") if sums[:4] == b"crc\0" else 0
    if not size:
        return True
    chunks = [data[at : at + size] for at in range(0, len(data), size)]
    wanted = b"".join(zlib.crc32(chunk).to_bytes(4, "big") for chunk in chunks)
    return sums[_CHUNK_HEAD:] == wanted


def _is_metadata(text: str) -> bool:
    found = json.loads(text)
    return isinstance(found, dict) and isinstance(found.get("id"), str)


def _is_commit(text: str) -> bool:
    head, *rest = text.splitlines()
    return _is_version(head) and all(isinstance(json.loads(line), dict) for line in rest if line)


def _is_plain_commit(text: str) -> bool:
    """Of the first version, with the watermark alone."""
    head, *rest = text.splitlines()
    return head == "v1" and [set(json.loads(line)) for line in rest if line] == [{"nextBatchWatermarkMs"}]


def _is_offset(text: str) -> bool:
    """Version, settings, and a line for each source: JSON where it is ours."""
    head, settings, *offsets = text.splitlines() if text.count("\n") else ("", "")
    sound: list[Any] = [json.loads(line) for line in (settings, *offsets) if line.startswith("{")]
    return _is_version(head) and bool(offsets) and all(isinstance(one, dict) for one in sound)


def _is_version(line: str) -> bool:
    return _VERSION.fullmatch(line) is not None
