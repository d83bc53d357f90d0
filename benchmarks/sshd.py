"""Five kinds of sshd events, tried in order, with the same header → JSON lines on disk."""

from __future__ import annotations

from benchmarks import data
from benchmarks.contenders import CHDB, DUCKDB, RE, RE2, RE2_SIMPLE, TENZIR
from benchmarks.workload import Workload

HEADER = r"^(\w{3} [ \d]\d \d\d:\d\d:\d\d) (\S+) sshd\[(\d+)\]: "
USER, ADDRESS = r"([a-zA-Z0-9._-]+)", r"([\d.]+)"
PLAIN = (
    rf"(Failed|Accepted) (\w+) for (?:invalid user )?{USER} from {ADDRESS} port (\d+)",
    rf"(Invalid user) {USER} from {ADDRESS}",
    r"pam_unix\(sshd:auth\): (authentication failure); logname=\S* uid=(\d+) euid=(\d+) tty=ssh ruser=\S* "
    rf"rhost=(\S+)(?:  user={USER})?",
    rf"(Received disconnect) from {ADDRESS}: (\d+): (.*)",
    rf"(Connection closed) by {ADDRESS}",
)

WORKLOAD = Workload(
    name="sshd",
    title="Five sshd events",
    about=(
        "OpenSSH lines; five patterns with a common header are tried in order, and lines that none matches (a fifth) are "
        "dropped. RE2 (through pyarrow, JSON by Polars) and `re`, a process a core each, run grok's expressions, Tenzir grok, "
        "*RE2 simple*, DuckDB and chDB simple regular expressions, each on the rows that the earlier ones left."
    ),
    log=data.OPENSSH,
    plain=tuple(HEADER + text for text in PLAIN),
    peers=(
        RE2.up_to(500_000),
        RE2_SIMPLE.up_to(1_000_000),
        RE.up_to(1_000_000),
        CHDB.up_to(1_000_000),
        DUCKDB.up_to(1_000_000),
        TENZIR.up_to(200_000),
    ),
    targets={2: 3_000_000.0},
)
run = WORKLOAD.run
