"""Tumbling windows in Flink's SQL: ``flink_windows.py INPUT OUTPUT CORES`` prints the seconds of its work.

Flink's `filesystem` connector has no parallelism of a source. A local file is one split, which one task reads in order; several
files would be read in no order, and their events dropped as late.
"""

import json
import sys
import time

from pyflink.table import EnvironmentSettings, TableEnvironment  # type: ignore[import-not-found]

source, target, cores = sys.argv[1:]
settings = {
    "parallelism.default": cores,
    "execution.checkpointing.interval": "10 s",
    "execution.checkpointing.dir": f"file://{target}-checkpoint",
    "table.local-time-zone": "UTC",
}
tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
for name, value in settings.items():
    tables.get_config().set(name, value)
JSON = "'format' = 'json', 'json.timestamp-format.standard' = 'ISO-8601'"
tables.execute_sql(f"""
    CREATE TABLE events (`time` TIMESTAMP_LTZ(3), `ip` STRING, `bytes` BIGINT,
                         WATERMARK FOR `time` AS `time` - INTERVAL '5' SECOND)
    WITH ('connector' = 'filesystem', 'path' = 'file://{source}', {JSON})
""")
tables.execute_sql(f"""
    CREATE TABLE results (`start` TIMESTAMP(3), `end` TIMESTAMP(3), `ip` STRING, `events` BIGINT, `bytes` BIGINT, `most` BIGINT)
    WITH ('connector' = 'filesystem', 'path' = 'file://{target}', {JSON})
""")
began = time.monotonic()
tables.execute_sql("""
    INSERT INTO results SELECT window_start, window_end, `ip`, count(*), sum(`bytes`), max(`bytes`)
    FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(`time`), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end, `ip`
""").wait()
print(json.dumps({"work_seconds": time.monotonic() - began}))
