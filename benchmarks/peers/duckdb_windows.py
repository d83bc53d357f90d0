"""The windows of a whole file in DuckDB's SQL: ``duckdb_windows.py INPUT OUTPUT CORES`` prints the seconds of its work."""

import json
import sys
import time

import duckdb

source, target, cores = sys.argv[1:]
database = duckdb.connect()
database.execute(f"SET threads = {cores}")
began = time.monotonic()
database.execute(f"""
    COPY (
        SELECT date_trunc('minute', time) AS start, ip, count(*) AS events, sum(bytes) AS bytes, max(bytes) AS most
        FROM read_json('{source}', format = 'newline_delimited', columns = {{time: 'TIMESTAMP', ip: 'VARCHAR', bytes: 'BIGINT'}})
        GROUP BY ALL
    ) TO '{target}' (FORMAT json)
""")
print(json.dumps({"work_seconds": time.monotonic() - began}))
