"""Who does the work: this engine and its peers, each as a command and a way to find its working time."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.folders import CACHE, HERE, ROOT, VENV

PACKAGES = (
    "chdb==4.4.0",
    "tenzir==6.20.0",
    "duckdb==2.0.0",
    "pysigma-backend-sqlite==2.1.1",
    "mmdb-writer==0.2.7",
    "maxminddb==3.2.0",
)
"""What the peers' environment holds, beside this engine's own."""

CRATES = {"rsigma": "0.23.0"}
"""Programs that cargo builds. 0.23.0 is the last that Rust 1.95 compiles, and needs its default features."""

PIPELINES = HERE / "pipelines"

SHORT = 2_000_000
"""Peers run on so many lines at most: they are measured in lines a second."""


@dataclass(frozen=True)
class Contender:
    """``argv(input, folder, cores)`` is its command; it writes into the folder and leaves ``output`` there.

    A peer finds what it has to do in ``work.json`` in that folder.
    """

    name: str
    argv: Callable[[Path, Path, int], list[str]]
    seconds: Callable[[str, str], float]
    """Standard output and error → seconds of work after start-up."""
    output: str = "out.json"
    ours: bool = False
    max_lines: int | None = None
    """Lines it runs on at most."""

    def up_to(self, lines: int) -> Contender:
        """The same on a shorter piece of the data."""
        return replace(self, max_lines=lines)


def etl(pipeline: str, *options: str, output: str = "out.json") -> Callable[[Path, Path, int], list[str]]:
    """A pipeline of this folder, run by the command line as a user does."""

    def argv(source: Path, folder: Path, cores: int) -> list[str]:
        overrides = [f"sources.log.path={source}", f"sinks.out.path={folder}/{output}"]
        settings = [text for text in overrides for text in ("--set", text)]
        master = ["--master", f"local[{cores}]", "--state", str(folder / "state"), "--log-format", "json"]
        return [sys.executable, "-m", "etl", "run", str(PIPELINES / pipeline), "--once", *master, *settings, *options]

    return argv


def done(out: str, err: str) -> float:
    """The working time that a run of ours reports."""
    return float(last_event(err, "done")["work_seconds"])


def last_event(err: str, name: str) -> dict[str, Any]:
    """The last log line of that event."""
    events = [json.loads(line) for line in err.splitlines() if line.startswith("{")]
    found = [event for event in events if event["event"] == name]
    if not found:
        raise RuntimeError(f"the run said no {name!r}:\n{err[-2000:]}")
    return found[-1]


def printed(out: str, err: str) -> float:
    """The working time that a peer's program prints."""
    return float(json.loads(out.strip().splitlines()[-1])["work_seconds"])


def _peer(name: str, script: str, python: Path, output: str = "out.json", *more: str) -> Contender:
    def argv(source: Path, folder: Path, cores: int) -> list[str]:
        return [
            str(python),
            str(HERE / "peers" / script),
            str(source),
            str(folder / output),
            str(cores),
            str(folder / "work.json"),
            *more,
        ]

    return Contender(name, argv, printed, output, max_lines=SHORT)


def sluice(pipeline: str) -> Contender:
    """This engine on a pipeline of this folder, into a folder of parts."""
    return Contender("sluice", etl(pipeline, output="out/"), done, "out", ours=True)


FLINK = "apache-flink==2.3.0"
"""Flink with its Python API, 0.8 GB. Its versions of libraries are not those of other peers."""

OTHERS, OWN = VENV / "bin" / "python", Path(sys.executable)
PYSPARK = _peer("PySpark", "spark_plain.py", OWN, "out")
CHDB = _peer("chDB", "chdb_sql.py", OTHERS)
TENZIR = _peer("Tenzir", "tenzir_tql.py", OTHERS)
DUCKDB = _peer("DuckDB", "duckdb_sql.py", OTHERS)
RE2 = _peer("RE2", "re2_arrow.py", OWN, "out", "re2")
RE2_SIMPLE = _peer("RE2 simple", "re2_arrow.py", OWN, "out", "named")
RE = _peer("Python re", "re_plain.py", OWN, "out")


def program(name: str) -> Path:
    """A program of `CRATES`, built outside the checkout when it is first asked for. Raises OSError or CalledProcessError."""
    version, root = CRATES[name], CACHE / "cargo"
    binary = root / f"{name}-{version}" / "bin" / name
    if not binary.exists():
        cargo = shutil.which("cargo") or str(Path.home() / ".cargo" / "bin" / "cargo")
        CACHE.mkdir(parents=True, exist_ok=True)
        options = ["--version", version, "--locked", "--root", str(root / f"{name}-{version}")]
        subprocess.run([cargo, "install", "--quiet", name, *options], check=True, cwd=CACHE)
    return binary


def prepare_peers() -> None:
    """An environment of their own, outside the checkout; made once."""
    ready = VENV / ".ready"
    if ready.exists() and ready.read_text().split() == list(PACKAGES):
        return
    subprocess.run([sys.executable, "-m", "venv", VENV], check=True)
    subprocess.run([VENV / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES], check=True, cwd=ROOT)
    ready.write_text("\n".join(PACKAGES))


def flink_python() -> Path:
    """The Python of an environment with Flink, made once. Raises OSError or CalledProcessError where it cannot be made."""
    folder = CACHE / "flink"
    ready = folder / ".ready"
    if not ready.exists() or ready.read_text() != FLINK:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([folder / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", FLINK], check=True, cwd=ROOT)
        ready.write_text(FLINK)
    return folder / "bin" / "python"
