"""Nexmark in Spark's SQL: ``spark_nexmark.py DATA OUTPUT WARM EVENTS QUERY…`` prints the cost of each query.

Structured Streaming refuses the queries that are not here: results over results that change, several distinct counts, top N.
It takes q5, windows over windows, but gives none of its results in one micro-batch.
"""

import json
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.nexmark_queries import cpu

data, output, warm, measured = (Path(word) for word in sys.argv[1:5])
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "4g",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.streaming.checkpointLocation": str(output / "checkpoints"),
}
PERSON = """id BIGINT, name STRING, emailAddress STRING, creditCard STRING, city STRING, state STRING, dateTime TIMESTAMP,
 extra STRING"""
AUCTION = """id BIGINT, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT, dateTime TIMESTAMP,
 expires TIMESTAMP, seller BIGINT, category BIGINT, extra STRING"""
BID = "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, dateTime TIMESTAMP, extra STRING"
SCHEMA = f"event_type INT, person STRUCT<{PERSON}>, auction STRUCT<{AUCTION}>, bid STRUCT<{BID}>"
TIME = "CASE WHEN event_type = 0 THEN person.dateTime WHEN event_type = 1 THEN auction.dateTime ELSE bid.dateTime END"
VIEWS = {"person": (0, PERSON), "auction": (1, AUCTION), "bid": (2, BID)}
RANKS = """count(*) AS total_bids, count(*) FILTER (WHERE price < 10000) AS rank1_bids,
 count(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bids,
 count(*) FILTER (WHERE price >= 1000000) AS rank3_bids"""
CHANNEL = "regexp_extract(url, '(&|^)channel_id=([^&]*)', 2)"
QUERIES = {
    "q0": "SELECT auction, bidder, price, dateTime, extra FROM bid",
    "q1": "SELECT auction, bidder, CAST(0.908 * price AS DECIMAL(23, 3)) AS price, dateTime, extra FROM bid",
    "q2": "SELECT auction, price FROM bid WHERE mod(auction, 123) = 0",
    "q3": """SELECT P.name, P.city, P.state, A.id FROM auction A JOIN person P ON A.seller = P.id
 WHERE A.category = 10 AND P.state IN ('OR', 'ID', 'CA')""",
    "q7": """SELECT B.auction, B.price, B.bidder, B.dateTime, B.extra FROM bid B
 JOIN (SELECT max(price) AS maxprice, window.end AS dateTime FROM bid GROUP BY window(dateTime, '10 seconds')) M
 ON B.price = M.maxprice AND B.dateTime BETWEEN M.dateTime - INTERVAL '10' SECOND AND M.dateTime""",
    "q8": """SELECT P.id, P.name, P.window.start AS starttime
 FROM (SELECT id, name, window FROM person GROUP BY id, name, window(dateTime, '10 seconds')) P
 JOIN (SELECT seller, window FROM auction GROUP BY seller, window(dateTime, '10 seconds')) A
 ON P.id = A.seller AND P.window = A.window""",
    "q10": """SELECT auction, bidder, price, dateTime, extra, date_format(dateTime, 'yyyy-MM-dd') AS dt,
 date_format(dateTime, 'HH:mm') AS hm FROM bid""",
    "q11": """SELECT bidder, count(*) AS bid_count, session_window.start AS starttime, session_window.end AS endtime FROM bid
 GROUP BY bidder, session_window(dateTime, '10 seconds')""",
    "q12": """SELECT bidder, count(*) AS bid_count, window.start AS starttime, window.end AS endtime
 FROM (SELECT bidder, current_timestamp() AS p_time FROM bid) GROUP BY bidder, window(p_time, '10 seconds')""",
    "q13": """SELECT B.auction, B.bidder, B.price, B.dateTime, S.value FROM bid B
 JOIN side_input S ON mod(B.auction, 10000) = S.key""",
    "q14": """SELECT auction, bidder, CAST(0.908 * price AS DECIMAL(23, 3)) AS price,
 CASE WHEN hour(dateTime) >= 8 AND hour(dateTime) <= 18 THEN 'dayTime'
 WHEN hour(dateTime) <= 6 OR hour(dateTime) >= 20 THEN 'nightTime' ELSE 'otherTime' END AS bidTimeType,
 dateTime, extra, length(extra) - length(replace(extra, 'c', '')) AS c_counts
 FROM bid WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000""",
    "q17": f"""SELECT auction, date_format(dateTime, 'yyyy-MM-dd') AS day, {RANKS}, min(price) AS min_price,
 max(price) AS max_price, avg(price) AS avg_price, sum(price) AS sum_price
 FROM bid GROUP BY auction, date_format(dateTime, 'yyyy-MM-dd')""",
    "q20": """SELECT auction, bidder, price, channel, url, B.dateTime AS bid_dateTime, B.extra AS bid_extra, itemName,
 description, initialBid, reserve, A.dateTime AS auction_dateTime, expires, seller, category, A.extra AS auction_extra
 FROM bid B JOIN auction A ON B.auction = A.id WHERE A.category = 10""",
    "q21": f"""SELECT auction, bidder, price, channel, CASE WHEN lower(channel) = 'apple' THEN '0'
 WHEN lower(channel) = 'google' THEN '1' WHEN lower(channel) = 'facebook' THEN '2' WHEN lower(channel) = 'baidu' THEN '3'
 ELSE {CHANNEL} END AS channel_id
 FROM bid WHERE {CHANNEL} <> '' OR lower(channel) IN ('apple', 'google', 'facebook', 'baidu')""",
    "q22": """SELECT auction, bidder, price, channel, split_part(url, '/', 4) AS dir1, split_part(url, '/', 5) AS dir2,
 split_part(url, '/', 6) AS dir3 FROM bid""",
}
UPDATES = ("q12", "q17")
"""Queries whose results have no last time, and change."""

builder = SparkSession.builder.master("local[2]")
for key, value in SETTINGS.items():
    builder = builder.config(key, value)
session = builder.getOrCreate()
session.read.schema("key BIGINT, value STRING").csv(str(data / "side_input.txt")).createOrReplaceTempView("side_input")


def declare_views(events: Path) -> None:
    """The stream of events as the three views of the benchmark."""
    rows = session.readStream.schema(SCHEMA).json(str(events / "halves"))
    rows.selectExpr("*", f"{TIME} AS eventTime").withWatermark("eventTime", "4 seconds").createOrReplaceTempView("datagen")
    for name, (kind, columns) in VIEWS.items():
        names = [column.split()[0] for column in columns.split(",")]
        chosen = ", ".join("eventTime AS dateTime" if one == "dateTime" else f"{name}.{one}" for one in names)
        session.sql(f"SELECT {chosen} FROM datagen WHERE event_type = {kind}").createOrReplaceTempView(name)


def run(query: str, events: Path) -> tuple[float, float]:
    """Seconds and CPU seconds of a query over all events."""
    declare_views(events)
    writer = session.sql(QUERIES[query]).writeStream.outputMode("update" if query in UPDATES else "append")
    if query == "q10":
        folder = str(output / f"{query}-{events.name}")
        writer = writer.format("csv").partitionBy("dt", "hm").option("path", folder)
    else:
        writer = writer.format("noop")
    began, used = time.monotonic(), cpu()
    writer.trigger(availableNow=True).start().awaitTermination()
    return time.monotonic() - began, cpu() - used


for query in sys.argv[5:]:
    if query not in QUERIES:
        print(json.dumps({"query": query, "error": "Structured Streaming cannot compute it"}), flush=True)
        continue
    try:
        run(query, warm)
        seconds, used = run(query, measured)
        print(json.dumps({"query": query, "seconds": seconds, "cpu": used}), flush=True)
    except Exception as error:  # whatever Spark says of a query that it refuses
        print(json.dumps({"query": query, "error": str(error)[:300]}), flush=True)
session.stop()
