"""From the command to its first output, with cold files."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from benchmarks import data, measure
from benchmarks.folders import ROOT, fresh
from benchmarks.follow import follow_argv, wait_until
from benchmarks.measure import Command
from benchmarks.results import Result, Row
from benchmarks.settings import Settings

TITLE = "Start-up"
ABOUT = (
    "From the command to the first line in the output, following a file of 2,000 lines on `local[1]`. Cold: the pages of "
    "Python's environment, of Java and of this checkout are given back to the system first (`posix_fadvise`), as far as "
    "nobody else has them mapped. To the end: the same lines with `--once`, until the command has ended."
)
LIMIT_SECONDS = 12.0
PATIENCE_SECONDS = 120.0


def run(settings: Settings) -> Result:
    """Cold and warm by turns."""
    cold, warm = Row("start to first output, cold", "s", at_most=LIMIT_SECONDS), Row("start to first output, warm", "s")
    whole = Row("start to end with --once, warm", "s")
    for number in range(settings.runs):
        _evict(_program_files())
        _measure(cold)
        _measure(warm)
        _measure_whole(whole)
        times = f"cold {cold.values[-1]:.1f} s, warm {warm.values[-1]:.1f} s, to the end {whole.values[-1]:.1f} s"
        print(f"  run {number + 1}: {times}", file=sys.stderr, flush=True)
    return Result("startup", TITLE, ABOUT, [cold, warm, whole])


def _measure(row: Row) -> None:
    folder, source, output = _make_folder()
    with Command(follow_argv(source, output, folder), folder) as command:
        wait_until(lambda: output.exists() and output.stat().st_size > 0, command, PATIENCE_SECONDS)
        row.values.append(time.monotonic() - command.began)
        command.terminate()
        cost = command.wait(60)
    row.cpu.append(cost.cpu)
    row.pss.append(cost.peak)


def _measure_whole(row: Row) -> None:
    folder, source, output = _make_folder()
    cost, _, _ = measure.run([*follow_argv(source, output, folder), "--once"], folder)
    row.values.append(cost.wall)
    row.cpu.append(cost.cpu)
    row.pss.append(cost.peak)


def _make_folder() -> tuple[Path, Path, Path]:
    """A folder, the log in it, and where the output will be."""
    folder = fresh("startup")
    source, output = folder / "start.log", folder / "out.json"
    source.write_text("".join(f"{line}\n" for line in data.seed()))
    return folder, source, output


def _program_files() -> Iterable[Path]:
    from etl.spark.jvm.java import java_home

    for root in {Path(sys.prefix), Path(sys.base_prefix) / "lib", java_home().resolve(), ROOT / "etl"}:
        yield from (path for path in root.rglob("*") if path.is_file() and not path.is_symlink())


def _evict(files: Iterable[Path]) -> None:
    for path in files:
        try:
            number = os.open(path, os.O_RDONLY)
        except OSError:
            continue
        try:
            os.posix_fadvise(number, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(number)
