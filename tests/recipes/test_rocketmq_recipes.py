"""The recipes that read RocketMQ, from a real broker into real servers: what is in the topic is there, once."""

from __future__ import annotations

import json
import time

import pyarrow as pa
import pytest
from running import ROOT, Engine
from servers.brokers.rocketmq_server import RocketMq
from servers.databases.mariadb_server import MariaDb
from servers.search.opensearch_server import OpenSearch

from connectors.rocketmq.sink import RocketmqSink
from etl.api import Task

pytestmark = pytest.mark.spark


def sent(server: RocketMq, topic: str, sample: str) -> int:
    """Put the lines of a sample into a new topic; how many."""
    lines = (ROOT / "samples" / sample).read_text().splitlines()
    server.create_topic(topic, 2)
    sink = RocketmqSink(servers=(server.address,), topic=topic, body_field="message", identity_key=False)
    batch = pa.record_batch({"message": lines, "_offset": pa.array(range(len(lines)), pa.int64())})
    writer = sink.open(Task("recipes", "out", topic, "/nowhere", batch.schema))
    result = writer.write(batch)
    writer.close()
    assert result.retryable is None
    assert not result.rejected
    return len(lines)


def run_twice(engine: Engine, recipe: str, **environment: str) -> None:
    """Run the recipe on what there is, and once more, which finds nothing new."""
    variables = engine.etl.folder / "recipe.env"
    variables.write_text("".join(f"{name}={value}\n" for name, value in environment.items()))
    for _ in range(2):
        ran = engine.run(ROOT / "pipelines" / f"{recipe}.yaml", "--once", "--env-file", variables)
        assert ran.status == 0, ran.err


def test_access_logs_into_opensearch(rocketmq: RocketMq, opensearch: OpenSearch, engine: Engine) -> None:
    topic = f"recipe-web-{time.time_ns()}"
    lines = sent(rocketmq, topic, "apache-access.log")
    index = topic

    run_twice(
        engine, "rocketmq-to-elasticsearch", ROCKETMQ=rocketmq.address, TOPIC=topic, ELASTICSEARCH=opensearch.address, INDEX=index
    )

    opensearch.ask("POST", f"/{topic}-*/_refresh")
    _, answer = opensearch.ask("GET", f"/{topic}-*/_search?size=100&q=http.response.status_code:403")
    found = json.loads(answer)
    _, count = opensearch.ask("GET", f"/{topic}-*/_count")
    assert json.loads(count)["count"] == lines - 1, "one line of the sample is of another format"
    assert {hit["_source"]["event"]["outcome"] for hit in found["hits"]["hits"]} == {"failure"}


def test_logins_into_mariadb(rocketmq: RocketMq, mariadb: MariaDb, engine: Engine) -> None:
    import pymysql

    topic = f"recipe-auth-{time.time_ns()}"
    sent(rocketmq, topic, "linux-auth.log")
    table = topic.replace("-", "_")

    run_twice(
        engine,
        "rocketmq-to-database",
        ROCKETMQ=rocketmq.address,
        TOPIC=topic,
        DATABASE=f"mysql://{mariadb.host}:{mariadb.port}/{mariadb.database}",
        DB_USER=mariadb.user,
        DB_PASSWORD=mariadb.password,
        TABLE=table,
    )

    with pymysql.connect(
        host=mariadb.host, port=mariadb.port, user=mariadb.user, password=mariadb.password, database=mariadb.database
    ) as connection:
        cursor = connection.cursor()
        cursor.execute(f"SELECT user_name, address, port, success FROM {table} ORDER BY port")
        rows = cursor.fetchall()
    assert rows == (("anna", "192.0.2.17", 40112, 1), ("oracle", "203.0.113.45", 42752, 0))
