"""Tumbling windows as Structured Streaming has them: ``spark_windows.py FOLDER OUTPUT CORES`` prints the seconds of its work.

Each file of the folder is a micro-batch.
"""

import json
import sys
import time

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

source, target, cores = sys.argv[1:]
settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": cores, "spark.driver.memory": "1g"}
builder = SparkSession.builder.master(f"local[{cores}]")
for name, value in settings.items():
    builder = builder.config(name, value)
session = builder.getOrCreate()
session.range(1).collect()  # the session works
began = time.monotonic()
events = session.readStream.schema("time timestamp, ip string, bytes bigint").option("maxFilesPerTrigger", 1).json(source)
windows = events.withWatermark("time", "5 seconds").groupBy(F.window("time", "1 minute"), "ip")
results = windows.agg(F.count("*").alias("events"), F.sum("bytes").alias("bytes"), F.max("bytes").alias("most"))
writer = results.select("window.*", "ip", "events", "bytes", "most").writeStream.format("json").outputMode("append")
query = writer.option("path", target).option("checkpointLocation", f"{target}-checkpoint").trigger(availableNow=True).start()
query.awaitTermination()
print(json.dumps({"work_seconds": time.monotonic() - began}))
session.stop()
