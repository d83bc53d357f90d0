"""One pattern as PySpark is usually written: ``spark_plain.py INPUT OUTPUT CORES WORK [parquet]`` prints the seconds of its work.

It writes JSON lines, or Parquet with zstd."""

import json
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, regexp_extract

source, target, cores, file, *form = sys.argv[1:]
(pattern,) = json.loads(Path(file).read_text())["patterns"]
session = SparkSession.builder.master(f"local[{cores}]").config("spark.ui.enabled", "false").getOrCreate()
session.range(1).collect()  # the session works
began = time.monotonic()
lines = session.read.text(source)
fields = [regexp_extract(col("value"), pattern["plain"], n).alias(name) for n, name in enumerate(pattern["fields"], 1)]
events = lines.select(*fields).where(col(pattern["fields"][0]) != "")
if form == ["parquet"]:
    events.write.option("compression", "zstd").parquet(target)
else:
    events.write.json(target)
print(json.dumps({"work_seconds": time.monotonic() - began}))
session.stop()
