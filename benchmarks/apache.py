"""COMBINEDAPACHELOG: the access log of a web server → eleven fields → JSON lines on disk."""

from __future__ import annotations

from benchmarks import data
from benchmarks.contenders import CHDB, DUCKDB, RE, RE2, RE2_SIMPLE, TENZIR
from benchmarks.workload import Workload
from parsers import patterns as library

PLAIN = (
    r'^(\S+) (?:-|(\S+)) (?:-|(\S+)) \[([^\]]+)\] "(\w+) (\S+)(?: HTTP/([\d.]+))?" (?:-|(\d+)) (?:-|(\d+))'
    r' "(?:-|([^"]*))" "(?:-|([^"]*))"'
)


def _spelled() -> str:
    """The pattern of our library in names that every grok library has."""
    texts = library.load("ecs-v1")
    return texts["HTTPD_COMBINEDLOG"].replace("%{HTTPD_COMMONLOG}", texts["HTTPD_COMMONLOG"])


WORKLOAD = Workload(
    name="apache",
    title="COMBINEDAPACHELOG",
    about=(
        "The 10,000 lines of an access log, repeated; `%{COMBINEDAPACHELOG}` of the library for the Elastic Common Schema, "
        "eleven fields (its older version has a twelfth). RE2 (through pyarrow, JSON by Polars) and `re`, a process a core each, "
        "run grok's expression, Tenzir grok, *RE2 simple*, DuckDB and chDB a simple regular expression."
    ),
    log=data.APACHE,
    plain=(PLAIN,),
    peers=(
        RE2.up_to(500_000),
        RE2_SIMPLE.up_to(500_000),
        RE.up_to(500_000),
        CHDB.up_to(1_000_000),
        DUCKDB.up_to(1_000_000),
        TENZIR.up_to(200_000),
    ),
    targets={2: 2_000_000.0},
    ratios={"RE2": 10.0, "RE2 simple": None},
    foreign=(_spelled(),),
)
run = WORKLOAD.run
