"""Patterns in ClickHouse's SQL: ``chdb_sql.py INPUT OUTPUT CORES WORK`` prints the seconds of its work."""

import json
import sys
import time
from pathlib import Path

import chdb

source, target, cores, file = sys.argv[1:]
work = json.loads(Path(file).read_text())
patterns = work["patterns"]


def text(value: str) -> str:
    """A literal."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def field(name: str) -> str:
    """The field from the first pattern that matched and has it."""
    places = [(n, pattern["fields"].index(name) + 1) for n, pattern in enumerate(patterns) if name in pattern["fields"]]
    return f"multiIf({', '.join(f'notEmpty(g{n}), g{n}[{at}]' for n, at in places)}, '') AS {name}"


rows = f"(SELECT line FROM file('{source}', 'LineAsString', 'line String'))"
for number, pattern in enumerate(patterns):
    groups = f"extractGroups(line, {text(pattern['plain'])})"
    earlier = " AND ".join(f"empty(g{n})" for n in range(number))
    value = f"if({earlier}, {groups}, [])" if earlier else groups
    rows = f"(SELECT *, {value} AS g{number} FROM {rows})"
some = " OR ".join(f"notEmpty(g{n})" for n in range(len(patterns)))

chdb.query("SELECT 1")
began = time.monotonic()
chdb.query(f"""
    INSERT INTO FUNCTION file('{target}', 'JSONEachRow', '{", ".join(f"{name} String" for name in work["fields"])}')
    SELECT {", ".join(field(name) for name in work["fields"])} FROM {rows} WHERE {some}
    SETTINGS max_threads = {cores}, output_format_json_escape_forward_slashes = 0
""")
print(json.dumps({"work_seconds": time.monotonic() - began}))
