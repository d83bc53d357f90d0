"""The `redis` sink on a real Redis."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from redis_rig import batch_of, client_of, create_sink, task, write
from servers import ports
from servers.brokers.redis_server import Redis

from connectors.redis import connection_options, writer
from connectors.redis.sink import MAX_FIELDS, RedisSink
from etl.api import BatchId, ComponentError, Staged


@pytest.fixture
def key(redis: Redis, request: pytest.FixtureRequest) -> str:
    """The key of a test, before which the ledger has no entries."""
    client = client_of(redis)
    for name in client.scan_iter("sluice:*"):
        client.delete(name)
    return request.node.name


def entries(server: Redis, key: str) -> list[dict[str, str]]:
    return [fields for _, fields in client_of(server).xrange(key)]


def test_events_are_entries_of_streams(redis: Redis, key: str) -> None:
    batch = batch_of(**{"a.b": [1, None], "c": ["x", "ü"], "host": ["h1", "h2"]})

    write(create_sink(redis, key=f"{key}:{{host}}"), batch)
    write(create_sink(redis, key=key, value_field="c"), batch, at=task(1))

    assert entries(redis, f"{key}:h1") == [{"a.b": "1", "c": "x", "host": "h1"}]
    assert entries(redis, f"{key}:h2") == [{"c": "ü", "host": "h2"}]
    assert entries(redis, key) == [{"message": "x"}, {"message": "ü"}]


def test_lists_strings_hashes_and_channels(redis: Redis, key: str) -> None:
    client = client_of(redis)
    batch = batch_of(k=["a", "b", "a"], v=["1", "2", "3"])
    listener = client.pubsub()
    listener.subscribe(f"{key}-c")
    assert listener.get_message(timeout=120)["type"] == "subscribe"

    write(create_sink(redis, key=f"{key}-l", kind="list"), batch)
    write(create_sink(redis, key=f"{key}-s:{{k}}", kind="string", value_field="v", expiry="1h"), batch, at=task(1))
    write(create_sink(redis, key=f"{key}-h:{{k}}", kind="hash", expiry="1h"), batch, at=task(2))
    write(create_sink(redis, key=f"{key}-c", kind="channel", value_field="v"), batch, at=task(3))

    assert [json.loads(text) for text in client.lrange(f"{key}-l", 0, -1)] == [
        {"k": "a", "v": "1"},
        {"k": "b", "v": "2"},
        {"k": "a", "v": "3"},
    ]
    assert (client.get(f"{key}-s:a"), client.get(f"{key}-s:b")) == ("3", "2")
    assert client.hgetall(f"{key}-h:a") == {"k": "a", "v": "3"}
    assert 0 < client.pttl(f"{key}-s:a") <= 3_600_000
    assert 0 < client.pttl(f"{key}-h:b") <= 3_600_000
    assert [listener.get_message(timeout=120)["data"] for _ in range(3)] == ["1", "2", "3"]
    listener.close()


def test_bytes_stay_bytes_and_a_stream_has_a_limit(redis: Redis, key: str) -> None:
    batch = batch_of(v=pa.array([b"\0\xff"] * 500, pa.binary()))

    write(create_sink(redis, key=key, value_field="v", max_length=100), batch)

    raw = connection_options.shared_client(create_sink(redis).settings())
    found = raw.xrange(key)
    assert 100 <= len(found) < 300
    assert found[0][1] == {b"message": b"\0\xff"}


def cuts(rows: int) -> list[list[pa.RecordBatch]]:
    whole = batch_of(n=list(range(rows)))
    return [[whole], [whole.slice(0, 4), whole.slice(4)], [whole.slice(0, 7), whole.slice(7)]]


@pytest.mark.parametrize("first", range(3))
@pytest.mark.parametrize("second", range(3))
def test_a_split_that_is_written_again_is_written_once(redis: Redis, key: str, first: int, second: int) -> None:
    sink = create_sink(redis, key=key)
    killed = sink.open(task())
    killed.write(cuts(10)[first][0])  # and then the process ends

    write(sink, *cuts(10)[second])
    write(sink, *cuts(10)[first])

    assert [int(entry["n"]) for entry in entries(redis, key)] == list(range(10))


def test_a_lost_answer_writes_nothing_twice(redis: Redis, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sink, batch = create_sink(redis, key=key), batch_of(n=list(range(5)))
    real, lost = writer.RedisWriter._run, [1]

    def run(self: Any, *arguments: Any) -> Any:
        answer = real(self, *arguments)
        if lost:
            lost.pop()
            raise ConnectionError("the answer is lost")
        return answer

    monkeypatch.setattr(writer.RedisWriter, "_run", run)
    opened = sink.open(task())
    with pytest.raises(ConnectionError):
        opened.write(batch)
    opened.write(batch)
    opened.write(batch_of(first=5, n=[5]))
    opened.close()

    assert [int(entry["n"]) for entry in entries(redis, key)] == list(range(6))


def test_an_event_with_the_most_fields_is_written_and_one_more_is_a_finding(redis: Redis, key: str) -> None:
    sink = create_sink(redis, key=key)
    names = [f"f{number}" for number in range(MAX_FIELDS)]

    write(sink, batch_of(**{name: ["x"] for name in names}))

    assert entries(redis, key) == [dict.fromkeys(names, "x")]
    more = pa.schema([(name, pa.string()) for name in [*names, "more"]])
    assert [finding.code for finding in sink.check(more)] == ["maximum"]
    assert not list(create_sink(redis, key=key, kind="list").check(more))


def test_at_least_once_writes_again(redis: Redis, key: str) -> None:
    for sink, at in (
        (create_sink(redis, key=key, delivery="at_least_once"), task()),
        (create_sink(redis, key=key), task(ordered=False)),
    ):
        client_of(redis).delete(key)
        for _ in range(2):
            write(sink, batch_of(n=[1]), at=at)
        assert len(entries(redis, key)) == 2


def test_entries_of_the_ledger_are_deleted_after_the_next_micro_batch(redis: Redis, key: str, tmp_path: Any) -> None:
    sink = create_sink(redis, key=key)
    committer = sink.committer(str(tmp_path))
    assert committer is not None
    names = []
    for number in range(2):
        opened = sink.open(task(number))
        opened.write(batch_of(n=[number]))
        staged = opened.close()
        assert isinstance(staged, Staged)
        names.append(staged.detail)
        committer.commit(BatchId("query", number), [staged])
        committer.commit(BatchId("query", number), [staged])

    client = client_of(redis)
    assert [client.exists(name) for name in names] == [0, 1]
    assert 0 < client.pttl(names[1]) <= writer.LEDGER_SECONDS * 1000
    assert sink.open(task(5)).close() is None


def test_a_ledger_that_is_lost_ends_the_run(redis: Redis, key: str) -> None:
    opened = create_sink(redis, key=key).open(task())
    opened.write(batch_of(n=[1]))
    client_of(redis).delete(opened.entry)

    with pytest.raises(ComponentError, match="has lost the ledger's entry"):
        opened.write(batch_of(first=1, n=[2]))


def test_dead_letters(redis: Redis, key: str) -> None:
    batch = batch_of(k=["a", None, "b"], v=["1", "2", None])

    (result,) = write(create_sink(redis, key=f"{key}:{{k}}", kind="list", value_field="v"), batch)

    assert [(one.code, one.events.column("_offset").to_pylist()) for one in result.rejected] == [
        ("null-key", [1]),
        ("null-value", [2]),
    ]
    assert client_of(redis).lrange(f"{key}:a", 0, -1) == ["1"]


def test_a_key_of_another_type_ends_the_run_and_nothing_is_written(redis: Redis, key: str) -> None:
    client = client_of(redis)
    client.set(f"{key}:b", "x")

    with pytest.raises(ComponentError, match=f"the key '{key}:b' is a string, not a stream"):
        write(create_sink(redis, key=f"{key}:{{k}}"), batch_of(k=["a", "b"]))

    assert not client.exists(f"{key}:a")


def write_until_full(sink: RedisSink) -> None:
    for number in range(100):
        write(sink, batch_of(v=["x" * 100_000]), at=task(number))


def test_a_server_without_memory_or_down_is_a_temporary_failure() -> None:
    with Redis(settings={"maxmemory": "1mb", "maxmemory-policy": "noeviction"}) as server:
        sink = create_sink(server, key="k")
        with pytest.raises(ConnectionError, match="used memory"):
            write_until_full(sink)
        server.kill()
        with pytest.raises(ConnectionError, match=f"redis 127.0.0.1:{server.port}"):
            write(sink, batch_of(v=["x"]), at=task(1000))
        server.restart()
        assert len(entries(server, "k")) < 100


def test_findings() -> None:
    (port,) = ports.free()

    class Server:
        url = f"redis://127.0.0.1:{port}/3"

    incoming = pa.schema([("text", pa.string()), ("_offset", pa.int64())])
    sink = create_sink(Server(), key="a:{txt}", kind="list", value_field="no", max_length=5, expiry="1h")

    assert [(finding.code, finding.path) for finding in sink.check(incoming)] == [
        ("unknown-field", ("key",)),
        ("unknown-field", ("value_field",)),
        ("unused-option", ("max_length",)),
        ("unused-option", ("expiry",)),
    ]
    assert list(sink.writes()) == [f"redis://127.0.0.1:{port}/3/a:txt"]
    guarantees = [create_sink(Server(), kind=kind).guaranteed() for kind in ("stream", "channel")]
    assert guarantees == ["exactly once", "none"]
