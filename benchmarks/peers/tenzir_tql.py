"""Grok in Tenzir's language: ``tenzir_tql.py INPUT OUTPUT CORES WORK`` prints the seconds of its work.

Tenzir is a program: its work is the time of the run less that of a run over one line. It has no option for its
number of threads; CORES is what the caller lets it run on. Its grok must match the whole line.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

source, target, _, file = sys.argv[1:]
groks = [pattern["grok"] for pattern in json.loads(Path(file).read_text())["patterns"]]


def steps() -> Iterator[str]:
    """Each pattern on the lines that the earlier ones left."""
    for number, grok in enumerate(groks):
        end = "" if grok.endswith("%{GREEDYDATA:message}") else ".*"
        parsed = f'line.parse_grok(r#"{grok}{end}"#, raw=true)'
        earlier = " and ".join(f"g{n} == null" for n in range(number))
        yield f"g{number} = {parsed} if {earlier}" if earlier else f"g0 = {parsed}"
    yield "where " + " or ".join(f"g{n} != null" for n in range(len(groks)))
    chosen = f"g{len(groks) - 1}"
    for number in reversed(range(len(groks) - 1)):
        chosen = f"(g{number} if g{number} != null else {chosen})"
    yield f"this = {chosen}"


def seconds(lines: Path | str, out: Path | str) -> float:
    """The time of a run."""
    pipeline = "\n".join([f'from_file "{lines}" {{ read_lines }}', *steps(), f'to_file "{out}" {{ write_ndjson }}'])
    began = time.monotonic()
    subprocess.run([Path(sys.executable).with_name("tenzir"), pipeline], check=True)
    return time.monotonic() - began


with tempfile.TemporaryDirectory() as folder:
    one, out = Path(folder, "one.log"), Path(folder, "one.json")
    with open(source) as lines:
        one.write_text(lines.readline())
    start = seconds(one, out)
print(json.dumps({"work_seconds": seconds(source, target) - start}))
