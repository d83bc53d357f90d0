"""W1 as PySpark is usually written: ``spark_plain.py INPUT OUTPUT CORES`` prints the seconds of its work."""

import json
import sys
import time

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, regexp_extract

LINE = r"^(\w{3} [ \d]\d \d\d:\d\d:\d\d) (\S+) sshd\[(\d+)\]: (.*)$"
FIELDS = ("timestamp", "host", "pid", "message")

source, target, cores = sys.argv[1:]
session = SparkSession.builder.master(f"local[{cores}]").config("spark.ui.enabled", "false").getOrCreate()
session.range(1).collect()  # the session works
began = time.monotonic()
lines = session.read.text(source)
fields = [regexp_extract(col("value"), LINE, number).alias(name) for number, name in enumerate(FIELDS, 1)]
lines.select(*fields).where(col("timestamp") != "").write.json(target)
print(json.dumps({"work_seconds": time.monotonic() - began}))
session.stop()
