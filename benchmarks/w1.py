"""W1: OpenSSH lines → grok of four fields → JSON lines on disk; this engine and its peers on the same data."""

from __future__ import annotations

from benchmarks import data
from benchmarks.contenders import CHDB, DUCKDB, PYSPARK, RE, RE2, RE2_SIMPLE, TENZIR
from benchmarks.workload import FASTEST, Workload

WORKLOAD = Workload(
    name="w1",
    title="W1: a log file to JSON lines",
    about=(
        "OpenSSH lines, four fields. RE2 (through pyarrow, JSON by Polars) and `re`, a process a core each, run grok's "
        "expression, Tenzir grok, *RE2 simple* and the other peers a simple regular expression."
    ),
    log=data.OPENSSH,
    plain=(r"^(\w{3} [ \d]\d \d\d:\d\d:\d\d) (\S+) sshd\[(\d+)\]: (.*)$",),
    peers=(PYSPARK, CHDB, TENZIR, DUCKDB, RE2.up_to(1_000_000), RE2_SIMPLE, RE.up_to(1_000_000)),
    targets={2: 5_000_000.0, 1: 2_800_000.0},
    ratios={FASTEST: 3.0},
    scaling=1.8,
)
run = WORKLOAD.run
