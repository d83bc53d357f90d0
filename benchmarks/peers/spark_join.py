"""A stream-stream join as Structured Streaming has it: ``spark_join.py FOLDER OUTPUT CORES``.

Each file of the folders ``logins`` and ``payments`` is a micro-batch of its side.
"""

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

source, target, cores = sys.argv[1:]
settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": cores, "spark.driver.memory": "1g"}
builder = SparkSession.builder.master(f"local[{cores}]")
for name, value in settings.items():
    builder = builder.config(name, value)
session = builder.getOrCreate()


def side(name: str) -> DataFrame:
    events = session.readStream.schema("time timestamp, ip string, bytes bigint").option("maxFilesPerTrigger", 1)
    return events.json(f"{source}/{name}").withWatermark("time", "5 seconds").alias(name)


near = F.expr("logins.ip = payments.ip and payments.time >= logins.time and payments.time <= logins.time + interval 30 seconds")
pairs = side("logins").join(side("payments"), near)
results = pairs.select("logins.time", "logins.ip", "logins.bytes", F.col("payments.time").alias("paid"), "payments.bytes")
writer = results.toDF("time", "ip", "bytes", "paid", "amount").writeStream.format("json").outputMode("append")
query = writer.option("path", target).option("checkpointLocation", f"{target}-checkpoint").trigger(availableNow=True).start()
query.awaitTermination()
session.stop()
