"""What the numbers were measured on, and with which versions."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version

from benchmarks.folders import VENV, medium, work

OURS = ("pyspark", "pyarrow", "polars", "numba")
PEERS = ("chdb", "tenzir", "duckdb")
ABSENT = "not installed"


def describe() -> dict[str, str]:
    """Name → text, in the order to be shown."""
    return {
        "CPU": f"{_cpu()}, {len(os.sched_getaffinity(0))} cores",
        "Memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 1e9:.0f} GB",
        "System": f"{platform.system()} {platform.release()}",
        "Files of W1, apache, sshd": medium(work().parent),
        "Python": platform.python_version(),
        "Java": _java(),
        **{name: _version(name) for name in OURS},
        **_peers(),
    }


def load() -> str:
    """How busy the machine was when a benchmark began."""
    return f"{os.getloadavg()[0]:.1f}"


def _cpu() -> str:
    with open("/proc/cpuinfo") as lines:
        return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def _java() -> str:
    from etl.spark.jvm.java import java_home

    version_text = subprocess.run([f"{java_home()}/bin/java", "-version"], capture_output=True, text=True, check=True).stderr
    return version_text.splitlines()[1]


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ABSENT


def _peers() -> dict[str, str]:
    python = VENV / "bin" / "python"
    if not python.exists():
        return dict.fromkeys(PEERS, ABSENT)
    listed = subprocess.run([python, "-m", "pip", "list", "--format=freeze"], capture_output=True, text=True, check=True).stdout
    found = dict(line.split("==") for line in listed.splitlines() if "==" in line)
    return {name: found.get(name, ABSENT) for name in PEERS}


if __name__ == "__main__":
    print("\n".join(f"{key}: {value}" for key, value in describe().items()), file=sys.stdout)
