"""A file in shares that begin and end at lines, a process each."""

import json
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

BLOCK_BYTES = 4 << 20


def blocks(source: str, start: int, end: int) -> Iterator[bytes]:
    """Blocks of whole lines: those that begin at ``start`` or later, and before ``end``."""
    with open(source, "rb") as lines:
        lines.seek(max(0, start - 1))
        if start:
            lines.readline()
        while (left := end - lines.tell()) > 0:
            block = lines.read(min(BLOCK_BYTES, left))
            yield block if block.endswith(b"\n") else block + lines.readline()


def run(work: Callable[[Iterator[bytes], Path], None], source: str, target: str, cores: int) -> None:
    """``work(blocks, file)`` on each share, into a folder of a file for each; prints the seconds."""
    Path(target).mkdir()
    size = os.path.getsize(source)
    began = time.monotonic()
    edges = [size * n // cores for n in range(cores + 1)]
    context = multiprocessing.get_context("fork")
    shares = [
        context.Process(target=_share, args=(work, source, edges[n], edges[n + 1], Path(target, f"{n}.json")))
        for n in range(cores)
    ]
    for share in shares:
        share.start()
    for share in shares:
        share.join()
    if any(share.exitcode for share in shares):
        raise SystemExit("a share failed")
    print(json.dumps({"work_seconds": time.monotonic() - began}))


def _share(work: Callable[[Iterator[bytes], Path], None], source: str, start: int, end: int, target: Path) -> None:
    work(blocks(source, start, end), target)
