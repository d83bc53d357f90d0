"""W1 into tables of Delta Lake and Apache Iceberg, beside plain Parquet files of this engine and of Spark."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks import data, events, measure
from benchmarks.ballast import Ballast
from benchmarks.contenders import OWN, PIPELINES, PYSPARK, Contender, done
from benchmarks.folders import HERE, fresh, work
from benchmarks.results import Result, Row
from benchmarks.settings import Settings
from benchmarks.w1 import WORKLOAD
from benchmarks.workload import in_memory

RATE = 1_500_000.0
TITLE = "W1 into a lake"
ABOUT = (
    "The lines and the grok of W1 on two cores, `--once`, into a table of Delta Lake, one of Apache Iceberg (a catalog in "
    "SQLite) and Parquet files of the sink `file`; PySpark reads text, extracts with a simple regular expression and writes "
    "Parquet. All compress with zstd, read and write files in memory, and take turns. The rows of every run, in the files that "
    "the table names, are compared with what must come out. *CPU less start-up* takes off what the same command needs for the "
    "log taken once."
)


@dataclass(frozen=True)
class Target:
    """Where a contender writes to, and the data files that its readers see."""

    contender: Contender
    files: Callable[[Path], Sequence[str]]
    at_least: float | None = None


def run(settings: Settings) -> Result:
    """All by turns."""
    targets = _targets()
    rows = [Row(target.contender.name, "lines/s", at_least=target.at_least) for target in targets]
    for number in range(settings.runs):
        for target, row in zip(targets, rows, strict=True):
            _turn(target, row, settings.lines)
            shown = f"{row.values[-1]:,.0f} lines/s, {row.work_cpu[-1]:.1f} of {row.cpu[-1]:.1f} CPU s"
            print(f"  run {number + 1}: {row.label}: {shown}", file=sys.stderr, flush=True)
    delta, iceberg, plain, spark = rows
    ratios = [
        Row(f"{one.label} / {other.label}", "times", [a / b for a, b in zip(one.values, other.values, strict=True)])
        for one in (delta, iceberg)
        for other in (plain, spark)
    ]
    return Result("lake", TITLE, ABOUT, [*rows, *ratios])


def _targets() -> Sequence[Target]:
    return (
        Target(_sluice("sluice, Delta Lake", _delta), _delta_files, RATE),
        Target(_sluice("sluice, Iceberg", _iceberg), _iceberg_files, RATE),
        Target(_sluice("sluice, Parquet files", _parquet), _parquet_files),
        Target(replace(PYSPARK, name="PySpark, Parquet files", argv=_spark), _parquet_files),
    )


def _sluice(name: str, sink: Callable[[Path], str]) -> Contender:
    """W1's pipeline with another sink."""

    def argv(source: Path, folder: Path, cores: int) -> list[str]:
        settings = ["--set", f"sources.log.path={source}", "--set", f"sinks.out={sink(folder)}"]
        master = ["--master", f"local[{cores}]", "--state", str(folder / "state"), "--log-format", "json"]
        return [sys.executable, "-m", "etl", "run", str(PIPELINES / "w1.yaml"), "--once", *master, *settings]

    return Contender(name, argv, done, "out", ours=True)


def _delta(folder: Path) -> str:
    return f"{{from: parsed, type: lake, format: delta, table: {folder}/out}}"


def _iceberg(folder: Path) -> str:
    catalog = ", ".join(f"{name}: '{value}'" for name, value in _catalog(folder).items())
    return f"{{from: parsed, type: lake, format: iceberg, table: logs.w1, catalog: {{{catalog}}}}}"


def _parquet(folder: Path) -> str:
    return f"{{from: parsed, type: file, path: {folder}/out/, format: parquet, compression: zstd}}"


def _catalog(folder: Path) -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/out"}


def _spark(source: Path, folder: Path, cores: int) -> list[str]:
    script, out, work_file = HERE / "peers" / "spark_plain.py", folder / "out", folder / "work.json"
    return [str(OWN), str(script), str(source), str(out), str(cores), str(work_file), "parquet"]


def _parquet_files(folder: Path) -> Sequence[str]:
    return [str(path) for path in sorted((folder / "out").glob("*.parquet"))]


def _delta_files(folder: Path) -> Sequence[str]:
    from deltalake import DeltaTable

    return DeltaTable(str(folder / "out")).file_uris()


def _iceberg_files(folder: Path) -> Sequence[str]:
    from pyiceberg.catalog import load_catalog

    table = load_catalog("default", **_catalog(folder)).load_table("logs.w1")
    return [task.file.file_path.removeprefix("file://") for task in table.scan().plan_files()]


def _turn(target: Target, row: Row, lines: int) -> None:
    idle = _measure(target, data.OPENSSH.file(1))[0].cpu
    source = in_memory(data.OPENSSH.file(lines))
    cost, seconds = _measure(target, source)
    row.values.append(data.lines_of(source) / seconds)
    row.work_cpu.append(cost.cpu - idle)
    row.cpu.append(cost.cpu)
    row.pss.append(cost.peak)
    row.wall.append(cost.wall)


def _measure(target: Target, source: Path) -> tuple[measure.Cost, float]:
    folder = fresh("lake")
    (folder / "work.json").write_text(json.dumps(WORKLOAD.work))
    ballast = Ballast(work() / "ballast")
    ballast.fill()
    with ballast.give_way(folder):
        cost, out, err = measure.run(target.contender.argv(source, folder, 2), folder)
    copies = data.lines_of(source) // WORKLOAD.length
    events.check_rows(target.files(folder), WORKLOAD.once, copies)
    fresh("lake")
    return cost, target.contender.seconds(out, err)
