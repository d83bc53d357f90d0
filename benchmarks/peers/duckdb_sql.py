"""Patterns in DuckDB's SQL: ``duckdb_sql.py INPUT OUTPUT CORES WORK`` prints the seconds of its work."""

import json
import sys
import time
from pathlib import Path

import duckdb

source, target, cores, file = sys.argv[1:]
work = json.loads(Path(file).read_text())
patterns = work["patterns"]
FIRST = work["fields"][0]
"""A field that every match has."""


def text(value: str) -> str:
    """A literal."""
    return "'" + value.replace("'", "''") + "'"


def field(name: str) -> str:
    """The field from the pattern that matched; the others' structs are null or hold empty texts."""
    members = [f"g{n}.{name}" for n, pattern in enumerate(patterns) if name in pattern["fields"]]
    return members[0] if len(patterns) == 1 else f"coalesce({', '.join(f'''nullif({m}, '')''' for m in members)})"


rows = f"""(SELECT line FROM read_csv('{source}', columns = {{'line': 'VARCHAR'}}, delim = chr(1), header = false,
                                      quote = '', escape = '', auto_detect = false))"""
for number, pattern in enumerate(patterns):
    names = ", ".join(text(name) for name in pattern["fields"])
    value = f"regexp_extract(line, {text(pattern['plain'])}, [{names}])"
    value = f"CASE WHEN g{number - 1}.{FIRST} = '' THEN {value} END" if number else value
    rows = f"(SELECT *, {value} AS g{number} FROM {rows})"

database = duckdb.connect()
database.execute(f"SET threads = {cores}")
began = time.monotonic()
database.execute(f"""
    COPY (SELECT {", ".join(f"{field(name)} AS {name}" for name in work["fields"])} FROM {rows} WHERE {field(FIRST)} <> '')
    TO '{target}' (FORMAT json)
""")
print(json.dumps({"work_seconds": time.monotonic() - began}))
