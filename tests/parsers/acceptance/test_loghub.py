"""Eight real systems of loghub: every header column and the content equal the published table.

The table has the content without the blanks at its end, so the patterns leave them out, too.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pyarrow as pa
import pytest

from parsers.grok.parser import Grok
from parsers.grok.pattern_parser import PatternParser
from parsers.regex import Regex

SYSLOG = r"^(?<{0}>\w+) +(?<{1}>\d+) (?<Time>\S+) "

PARSERS: dict[str, PatternParser] = {
    "Apache": Grok(patterns=[r"^\[%{HTTPDERROR_DATE:Time}\] \[%{LOGLEVEL:Level}\] %{DATA:Content}\s*\z"]),
    "HDFS": Grok(
        patterns=[
            r"^%{INT:Date} %{INT:Time} %{INT:Pid} %{LOGLEVEL:Level} (?<Component>[^:]+): %{DATA:Content}\s*\z",
        ]
    ),
    "Hadoop": Grok(
        patterns=[
            r"^(?<Date>%{YEAR}-%{MONTHNUM}-%{MONTHDAY}) %{TIME:Time} %{LOGLEVEL:Level} \[%{DATA:Process}\] "
            r"%{JAVACLASS:Component}: ?%{DATA:Content}\s*\z"
        ]
    ),
    "Linux": Regex(
        patterns=[SYSLOG.format("Month", "Date") + r"(?<Level>\S+) +(?<Component>.*?)(?:\[(?<PID>\d+)\])?: *(?<Content>.*?)\s*\z"]
    ),
    "OpenSSH": Grok(
        patterns=[
            r"^%{MONTH:Date} +%{MONTHDAY:Day} %{TIME:Time} %{HOSTNAME:Component} sshd\[%{POSINT:Pid}\]: %{DATA:Content}\s*\z"
        ]
    ),
    "OpenStack": Regex(
        patterns=[
            r"^(?<Logrecord>\S+) (?<Date>\S+) (?<Time>\S+) (?<Pid>\d+) (?<Level>[A-Z]+) (?<Component>\S+) "
            r"\[(?<ADDR>[^\]]*)\] (?<Content>.*?)\s*\z"
        ]
    ),
    "Windows": Regex(
        patterns=[r"^(?<Date>\S+) (?<Time>[^,]+), (?<Level>\w+) +(?<Component>\w+) +(?<Content>.*?)\s*\z"],
    ),
    "Zookeeper": Regex(
        patterns=[
            r"^(?<Date>\S+) (?<Time>\S+) - (?<Level>\w+) +\[(?<Node>.*?):(?<Component>[^@]*)@(?<Id>\d+)\] - (?<Content>.*?)\s*\z"
        ]
    ),
}


@pytest.mark.parametrize("system", PARSERS)
def test_columns_equal_the_table(acceptance: Path, system: str) -> None:
    folder = acceptance / "loghub" / system
    lines = (folder / f"{system}_2k.log").read_bytes().decode("utf-8").split("\n")
    text = pa.array([line.removesuffix("\r") for line in lines if line])
    with (folder / f"{system}_2k.log_structured.csv").open(encoding="utf-8", newline="") as file:
        table = list(csv.DictReader(file))

    parsed = PARSERS[system].compile()(text)

    assert parsed.failed is None
    assert len(table) == len(text) == 2000
    columns = set(table[0]) - {"LineId", "EventId", "EventTemplate"}
    assert columns == set(parsed.columns)
    for name in sorted(columns):
        ours = [value or "" for value in parsed.columns[name].to_pylist()]
        wrong = [(n, row[name], value) for n, (row, value) in enumerate(zip(table, ours, strict=True), 1) if row[name] != value]
        assert wrong[:3] == [], f"{system}.{name}: {len(wrong)} of 2000 differ"
