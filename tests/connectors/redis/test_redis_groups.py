"""The `redis` source and sink with Redis Sentinel and in a Redis Cluster: real servers."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from redis_rig import FAR, batch_of, create_sink, create_source, numbers, task
from servers.brokers.redis_groups import MASTER, Watched, client_of, cluster, watched_master
from servers.brokers.redis_server import Redis
from source_events import read

from connectors.redis import connection_options, writer
from connectors.redis.cluster_writer import ClusterWriter, slot_of, tag_of
from connectors.redis.sink import RedisSink
from etl.api import Staged

pytestmark = pytest.mark.servers
WAIT_SECONDS = 180.0


@pytest.fixture(scope="module")
def nodes() -> Iterator[list[Redis]]:
    with cluster() as started:
        yield started
        close_clients()


@pytest.fixture
def watched() -> Iterator[Watched]:
    with watched_master() as started:
        yield started
        close_clients()


def close_clients() -> None:
    """Close the clients of groups: each is in a cycle, so that only garbage collection would, in another test."""
    connection_options.shared_client.cache_clear()
    for client in [one for one in gc.get_objects() if type(one) in (redis.RedisCluster, redis.Redis)]:
        client.close()


def retried(call: Callable[[], Any]) -> Any:
    """Call until no OSError comes, as the engine does."""
    end = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            return call()
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def entries(client: Any, key: str) -> list[int]:
    return [int(fields[b"n"]) for _, fields in client.xrange(key)]


def test_a_failover_is_followed_by_source_and_sink(watched: Watched) -> None:
    options = {"sentinel": MASTER, "nodes": ["127.0.0.1:1"]}
    sink = create_sink(watched.sentinel, key="out", **options)
    source = create_source(watched.sentinel, "out", **options)
    assert list(sink.probe(batch_of(n=[0]).schema)) == []
    opened = sink.open(task())
    opened.write(batch_of(0, n=list(range(100))))
    start = source.start()
    middle = source.latest(start, FAR)
    assert client_of(watched.master).wait(1, 10_000) == 1, "the replica has it"

    watched.master.kill()
    retried(lambda: opened.write(batch_of(100, n=list(range(100, 200)))))

    end = retried(lambda: source.latest(middle, FAR))
    assert entries(client_of(watched.replica), "out") == list(range(200))
    assert numbers(read(source, start, middle)) + numbers(read(source, middle, end)) == list(range(200))


def test_a_cluster_is_written_exactly_once_over_its_slots(nodes: list[Redis], monkeypatch: pytest.MonkeyPatch) -> None:
    sink = create_sink(nodes[0], key="k-{name}", cluster=True)
    rows = batch_of(0, name=[f"{number % 7}" for number in range(70)], n=list(range(70)))
    assert len({slot_of(f"k-{number}") for number in range(7)}) == 7
    opened = sink.open(task())
    run, calls = writer.RedisWriter._run, list[int]()

    def fails_once(self: Any, keys: Any, arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == 4:
            run(self, keys, arguments)
            raise ConnectionError("the answer is lost")
        return run(self, keys, arguments)

    monkeypatch.setattr(writer.RedisWriter, "_run", fails_once)
    with pytest.raises(ConnectionError):
        opened.write(rows.slice(0, 40))
    opened.write(rows.slice(0, 40))
    opened.write(rows.slice(40))
    staged = opened.close()
    again = sink.open(task())  # as after a kill, in other batches
    again.write(rows.slice(0, 55))
    again.write(rows.slice(55))

    client = connection_options.shared_client(sink.settings())
    assert [entries(client, f"k-{number}") for number in range(7)] == [list(range(number, 70, 7)) for number in range(7)]
    assert isinstance(staged, Staged)
    ledger = list(client.scan_iter("sluice:*"))
    assert len(ledger) == 7
    writer.delete_entries(sink.settings(), [staged.detail])
    assert list(client.scan_iter("sluice:*")) == []


@pytest.mark.parametrize("kind", ["list", "hash", "string", "channel"])
def test_a_cluster_takes_every_kind_at_least_once(nodes: list[Redis], kind: str) -> None:
    sink = create_sink(nodes[1], key=f"{kind}-{{n}}", kind=kind, cluster=True, delivery="at_least_once")
    opened = sink.open(task())

    assert opened.write(batch_of(0, n=[1, 2, None])).rejected[0].code == "null-key"

    client = connection_options.shared_client(sink.settings())
    assert opened.close() is None
    assert client.exists(f"{kind}-1", f"{kind}-2") == (0 if kind == "channel" else 2)


def test_streams_on_several_nodes_of_a_cluster_are_read(nodes: list[Redis]) -> None:
    source = create_source(nodes[2], "a", "b", "c", cluster=True, commit_group="sluice", delete=True)
    client = connection_options.shared_client(source.settings())
    start = source.start()
    for number in range(30):
        client.xadd("abc"[number % 3], {"n": number})

    end = source.latest(start, FAR)
    found = read(source, start, end)
    source.commit([end])

    assert sorted(numbers(found)) == list(range(30))
    assert json.loads(found[0]["message"]) == {"n": "0"}
    assert [client.xlen(key) for key in "abc"] == [0, 0, 0]
    assert client.xinfo_groups("a")[0]["lag"] == 0


def test_servers_that_do_not_answer_are_tried_again(nodes: list[Redis]) -> None:
    for options in ({"cluster": True}, {"sentinel": MASTER}):
        sink = RedisSink.model_validate({"type": "redis", "url": "redis://127.0.0.1:1", "key": "out", "timeout": "1s", **options})
        with pytest.raises(OSError, match=r"127\.0\.0\.1:1"):
            sink.open(task()).write(batch_of(0, n=[1]))


def test_a_tag_puts_a_key_into_its_slot() -> None:
    assert [slot_of(f"x{{{tag_of(slot)}}}y") for slot in (0, 1, 8191, 16383)] == [0, 1, 8191, 16383]
    assert isinstance(create_sink_of_cluster().open(task()), ClusterWriter)


def create_sink_of_cluster() -> RedisSink:
    return RedisSink.model_validate({"type": "redis", "url": "redis://localhost", "key": "out", "cluster": True})


@pytest.mark.parametrize(
    ("options", "code", "path"),
    [
        ({"sentinel": "m", "cluster": True}, "unused-option", ("cluster",)),
        ({"nodes": ["a:1"]}, "unused-option", ("nodes",)),
        ({"sentinel_password": "x", "cluster": True}, "unused-option", ("sentinel_password",)),
        ({"cluster": True, "url": "redis://a:1/3"}, "bad-url", ("url",)),
    ],
)
def test_options_without_effect_are_findings(options: dict[str, Any], code: str, path: tuple[str, ...]) -> None:
    sink = RedisSink.model_validate({"type": "redis", "url": "redis://a:1", "key": "out", **options})

    assert [(one.code, one.path) for one in sink.check(batch_of(n=[1]).schema)] == [(code, path)]
