"""W1 in DuckDB's SQL: ``duckdb_sql.py INPUT OUTPUT CORES`` prints the seconds of its work."""

import json
import sys
import time

import duckdb  # type: ignore[import-not-found]

LINE = r"^(\w{3} [ \d]\d \d\d:\d\d:\d\d) (\S+) sshd\[(\d+)\]: (.*)$"

source, target, cores = sys.argv[1:]
database = duckdb.connect()
database.execute(f"SET threads = {cores}")
began = time.monotonic()
database.execute(f"""
    COPY (
        SELECT g.timestamp, g.host, g.pid, g.message
        FROM (
            SELECT regexp_extract(line, '{LINE}', ['timestamp', 'host', 'pid', 'message']) AS g
            FROM read_csv('{source}', columns = {{'line': 'VARCHAR'}}, delim = chr(1), header = false,
                          quote = '', escape = '', auto_detect = false)
        )
        WHERE g.timestamp <> ''
    ) TO '{target}' (FORMAT json)
""")
print(json.dumps({"work_seconds": time.monotonic() - began}))
