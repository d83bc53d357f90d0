"""Which recipe or parser is named first: for each system its own, for what nobody knows the parser alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from running import ROOT

from etl.inference.sample import open_sample
from etl.inference.search import find_matches

SAMPLES = sorted((ROOT / "samples").glob("*.log"))
MAX_LINES = 30
"""Lines of each sample that are tried here."""

OTHER_NAMES = {
    "brute-force": ["linux-auth", "sshd"],
    "cri": ["cri-logs"],
    "agents": ["json-generic"],
    "docker": ["docker-logs"],
    "journald": ["journald-export"],
    "nginx-access": ["nginx-access", "apache-access"],  # the same format
    "outbox": ["json"],
    "port-scan": ["iptables-ufw"],
    "sigma-linux": ["linux-auth"],
    "sigma-windows": ["json", "sigma-windows"],
    "ssh-auth": ["linux-auth", "sshd"],
    "sudo": ["sudo", "linux-auth"],
    "threat-intel": ["json"],
    "web-attacks": ["apache-access", "nginx-access"],
    "web-scanner": ["apache-access", "nginx-access"],
}
"""Samples of recipes that look for something in another recipe's format, and of systems with a longer name."""

UNKNOWN = {
    "json": [
        '{"@timestamp":"2026-11-20T06:25:03Z","level":"info","message":"a"}',
        '{"orderId":17,"customer":{"name":"x","tier":"gold"},"items":[{"sku":"a"}],"total":12.5}',
        '{"ts":"2026-11-20T06:25:03Z","host":"a","log":"x","method":"GET","status":200,"path":"/a","took":12}',
        '{"time":1795155906250,"level":30,"msg":"request","reqId":"x7","route":"/cart","durationMs":12}',
    ],
    "key_value": [
        'time=2026-11-20T06:25:03Z level=info msg="a b" user=anna took=12',
        "ts=1 caller=main.go:12 msg=ready addr=:8080",
    ],
    "cef": ["CEF:0|Acme|FW|1|100|drop|5|src=192.0.2.4 dst=192.0.2.6 spt=1"],
    "leef": ["LEEF:1.0|Acme|FW|1|100|src=192.0.2.4\tdst=192.0.2.6"],
    "xml": ['<a><b>1</b><c d="x">y</c></a>'],
}


def best(path: Path) -> str:
    with open_sample(path, MAX_LINES) as sample:
        return find_matches(sample)[0].candidate.name


@pytest.mark.slow
@pytest.mark.parametrize("path", SAMPLES, ids=[path.stem for path in SAMPLES])
def test_a_system_s_own_recipe_is_named_first(path: Path) -> None:
    assert best(path) in OTHER_NAMES.get(path.stem, [path.stem])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("parser", "line"), [(parser, line) for parser, lines in UNKNOWN.items() for line in lines], ids=lambda text: text[:24]
)
def test_lines_of_no_recipe_are_left_to_the_parser(tmp_path: Path, parser: str, line: str) -> None:
    path = tmp_path / "app.log"
    path.write_text(f"{line}\n" * 3)

    assert best(path) == parser


@pytest.mark.parametrize(
    "line",
    [
        "2026-11-20T06:25:0{n}.120334+01:00 web0{n} app{n}[12{n}]: request {n} done",
        "Nov 20 06:25:0{n} fw0{n} meter{n}: a message of the number {n}",
    ],
)
def test_lines_of_programs_that_no_recipe_knows_are_generic_syslog(tmp_path: Path, line: str) -> None:
    path = tmp_path / "app.log"
    path.write_text("".join(f"{line}\n".format(n=n) for n in range(1, 5)))

    assert best(path) in ("syslog-generic", "syslog", "linux-syslog")
