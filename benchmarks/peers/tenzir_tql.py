"""W1 in Tenzir's language: ``tenzir_tql.py INPUT OUTPUT CORES`` prints the seconds of its work.

Tenzir is a program: its work is the time of the run less that of a run over one line. It has no option for its
number of threads; CORES is what the caller lets it run on.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

GROK = r"%{SYSLOGTIMESTAMP:timestamp} %{HOSTNAME:host} sshd\\[%{POSINT:pid}\\]: %{GREEDYDATA:message}"


def seconds(source: str, target: str) -> float:
    """The time of a run."""
    pipeline = f"""
        from_file "{source}" {{ read_lines }}
        this = line.parse_grok("{GROK}", raw=true)
        to_file "{target}" {{ write_ndjson }}
    """
    began = time.monotonic()
    subprocess.run([Path(sys.executable).with_name("tenzir"), pipeline], check=True)
    return time.monotonic() - began


source, target, _ = sys.argv[1:]
with tempfile.TemporaryDirectory() as folder:
    one, out = Path(folder, "one.log"), Path(folder, "one.json")
    with open(source) as lines:
        one.write_text(lines.readline())
    start = seconds(str(one), str(out))
print(json.dumps({"work_seconds": seconds(source, target) - start}))
