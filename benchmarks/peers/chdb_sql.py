"""W1 in ClickHouse's SQL: ``chdb_sql.py INPUT OUTPUT CORES`` prints the seconds of its work."""

import json
import sys
import time

import chdb  # type: ignore[import-not-found]

LINE = r"^(\\w{3} [ \\d]\\d \\d\\d:\\d\\d:\\d\\d) (\\S+) sshd\\[(\\d+)\\]: (.*)$"

source, target, cores = sys.argv[1:]
chdb.query("SELECT 1")
began = time.monotonic()
chdb.query(f"""
    INSERT INTO FUNCTION file('{target}', 'JSONEachRow', 'timestamp String, host String, pid String, message String')
    SELECT g[1] AS timestamp, g[2] AS host, g[3] AS pid, g[4] AS message
    FROM (SELECT extractGroups(line, '{LINE}') AS g FROM file('{source}', 'LineAsString', 'line String'))
    WHERE notEmpty(g)
    SETTINGS max_threads = {cores}, output_format_json_escape_forward_slashes = 0
""")
print(json.dumps({"work_seconds": time.monotonic() - began}))
