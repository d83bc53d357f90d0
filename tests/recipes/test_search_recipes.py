"""The recipes that end in Elasticsearch or OpenSearch, from end to end against real servers."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from running import ROOT, Engine, wait_for
from servers import ports
from servers.brokers.kafka_server import Kafka
from servers.search.opensearch_server import OpenSearch

SAMPLES = ROOT / "samples"


def recipe(monkeypatch: pytest.MonkeyPatch, name: str, **places: str) -> Path:
    """Its file, with its places in the environment."""
    for key, value in places.items():
        monkeypatch.setenv(key, value)
    return ROOT / "pipelines" / f"{name}.yaml"


def search_documents(node: OpenSearch, index: str) -> list[Any]:
    """All documents of a pattern, by their time; none where a new index has no shard yet that answers."""
    node.ask("POST", f"/{index}/_refresh")
    status, answer = node.ask(
        "POST", f"/{index}/_search", b'{"size":1000,"sort":[{"@timestamp":{"order":"asc","unmapped_type":"date"}}]}'
    )
    if status == 503:
        return []
    assert status == 200, answer
    return json.loads(answer)["hits"]["hits"]


@pytest.mark.spark
@pytest.mark.slow
def test_events_of_a_topic_are_documents_once(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, kafka: Kafka, opensearch: OpenSearch
) -> None:
    name = f"recipe-{uuid4().hex[:8]}"
    admin = AdminClient(kafka.client())
    admin.create_topics([NewTopic(name, 2, 1)])[name].result(30)
    producer = Producer(kafka.client())
    for number, line in enumerate((SAMPLES / "json-generic.log").read_bytes().splitlines()):
        producer.produce(name, line, partition=number % 2)
    assert producer.flush(30) == 0
    places = {"KAFKA": kafka.address, "TOPIC": name, "GROUP": name, "ELASTICSEARCH": opensearch.address, "INDEX": name}
    pipeline = recipe(monkeypatch, "kafka-to-elasticsearch", **places)

    ran = engine.run(pipeline, "--once")

    documents = search_documents(opensearch, f"{name}-*")
    assert ran.status == 0, ran.err
    assert (ran.done["events"], len(documents)) == (10, 8)
    assert {document["_index"] for document in documents} == {f"{name}-2026.11.20"}
    assert documents[0]["_source"]["message"] == "login"


@pytest.mark.spark
@pytest.mark.slow
def test_syslog_that_is_heard_is_found(engine: Engine, monkeypatch: pytest.MonkeyPatch, opensearch: OpenSearch) -> None:
    name, port = f"recipe-{uuid4().hex[:8]}", ports.free()[0]
    places = {"LISTEN": f"127.0.0.1:{port}", "ELASTICSEARCH": opensearch.address, "INDEX": name}
    pipeline = recipe(monkeypatch, "syslog-to-elasticsearch", **places)
    lines = (SAMPLES / "syslog-generic.log").read_bytes().splitlines()

    with engine.following(pipeline):
        wait_for(lambda: listens(port), what="the receiver")
        with socket.create_connection(("127.0.0.1", port)) as sock:
            sock.sendall(b"\n".join(lines[1:]) + b"\n")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.sendto(lines[0], ("127.0.0.1", port))
        wait_for(lambda: len(search_documents(opensearch, f"{name}-*")) >= len(lines), what="the documents")

    documents = [document["_source"] for document in search_documents(opensearch, f"{name}-*")]
    assert len(documents) == len(lines)
    assert {document["host"]["ip"] for document in documents} == {"127.0.0.1"}
    assert "no structured data" in {document["message"] for document in documents}


def listens(port: int) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0
