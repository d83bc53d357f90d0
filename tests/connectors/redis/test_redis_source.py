"""The `redis` source on a real Redis."""

from __future__ import annotations

import pytest
from redis_rig import FAR, client_of, create_source, numbers
from servers import ports
from servers.brokers.redis_server import Redis
from servers.certificates import Certificates
from source_events import read

from connectors.redis.entry_ids import EntryId
from etl.api import Backlog, ComponentError, Limit


@pytest.fixture
def stream(redis: Redis, request: pytest.FixtureRequest) -> str:
    """The key of a stream that no other test has."""
    return request.node.name


def add(server: Redis, key: str, first: int, last: int, text: str = "") -> None:
    pipe = client_of(server).pipeline()
    for number in range(first, last):
        pipe.xadd(key, {"n": number, "text": text})
    pipe.execute()


def test_entries_become_events(redis: Redis, stream: str) -> None:
    client = client_of(redis)
    client.xadd(stream, {"a": "1", "b": "ü"}, id="1700000000123-5")
    client.xadd(stream, {"b": "x"})
    source, own = create_source(redis, stream), create_source(redis, stream, entry_field="a")

    rows = read(source, source.start(), source.latest(source.start(), FAR))

    assert [row["message"] for row in rows] == ['{"a":"1","b":"ü"}', '{"b":"x"}']
    assert (rows[0]["redis.stream"], rows[0]["redis.id"]) == (stream, "1700000000123-5")
    assert rows[0]["redis.time"].timestamp() == 1_700_000_000.123
    assert [row["message"] for row in read(own, own.start(), own.latest(own.start(), FAR))] == ["1", None]


def test_micro_batches_continue_and_a_split_gives_the_same_events_again(redis: Redis, stream: str) -> None:
    source = create_source(redis, stream)
    at = source.start()
    add(redis, stream, 0, 3000, "x" * 100)
    seen: list[int] = []
    ends = 0

    while (end := source.latest(at, Limit(100_000))) != at:
        found = numbers(read(source, at, end, 3))
        assert numbers(read(source, at, end, 3)) == found
        seen += found
        at, ends = end, ends + 1
        add(redis, stream, 3000, 3000 + (ends < 3))

    assert seen[:3000] == list(range(3000))
    assert len(seen) == 3002
    assert ends > 3


def test_offsets_grow_and_splits_are_parallel(redis: Redis, stream: str) -> None:
    add(redis, stream, 0, 9000, "x" * 2000)
    source = create_source(redis, stream)
    start, end = source.start(), source.latest(source.start(), FAR)

    splits = source.splits(start, end, 4)
    rows = read(source, start, end, 4)

    assert 2 <= len(splits) <= 5
    assert numbers(rows) == list(range(9000))
    offsets = [row["_offset"] for row in rows]
    assert offsets == sorted(set(offsets))


@pytest.mark.parametrize("events", [0, 1, 7, 250])
def test_a_limit_of_events_is_exact(redis: Redis, stream: str, events: int) -> None:
    add(redis, stream, 0, 300)
    source = create_source(redis, stream)
    start = source.start()

    end = source.latest(start, Limit(1 << 30, events))

    assert numbers(read(source, start, end)) == list(range(events))


def test_until_is_not_exceeded(redis: Redis, stream: str) -> None:
    add(redis, stream, 0, 10)
    source = create_source(redis, stream)
    start = source.start()
    until = source.latest(start, FAR)
    add(redis, stream, 10, 20)

    end = source.latest(start, Limit(1 << 30, until=until))

    assert numbers(read(source, start, end)) == list(range(10))
    assert source.latest(end, Limit(1 << 30, until=until)) == end


def test_several_streams_and_one_that_comes_later(redis: Redis, stream: str) -> None:
    add(redis, stream, 0, 3)
    source = create_source(redis, stream, f"{stream}-2")
    start = source.start()
    first = source.latest(start, FAR)
    add(redis, f"{stream}-2", 3, 5)

    second = source.latest(first, FAR)

    assert numbers(read(source, start, first)) == [0, 1, 2]
    assert numbers(read(source, first, second)) == [3, 4]
    assert source.latest(second, FAR) == second


def test_start_latest_and_the_backlog(redis: Redis, stream: str) -> None:
    add(redis, stream, 0, 5)
    source = create_source(redis, stream, start="latest")
    start = source.start()
    add(redis, stream, 5, 8)

    assert numbers(read(source, start, source.latest(start, FAR))) == [5, 6, 7]
    assert source.backlog(start) == Backlog(3)
    assert source.backlog(source.latest(start, FAR)) == Backlog(0)
    assert source.skips == "start: latest"


def test_a_group_shows_the_position_and_entries_are_deleted(redis: Redis, stream: str) -> None:
    add(redis, stream, 0, 10)
    source = create_source(redis, stream, commit_group="g", delete=True)
    start = source.start()
    end = source.latest(start, Limit(1 << 30, 6))
    client = client_of(redis)

    source.commit([end])
    source.commit([end])

    assert client.xlen(stream) == 4
    (group,) = client.xinfo_groups(stream)
    assert (group["name"], group["last-delivered-id"], group["lag"]) == ("g", end[stream]["id"], 4)
    assert numbers(read(source, end, source.latest(end, FAR))) == [6, 7, 8, 9]


@pytest.mark.parametrize("how", ["trimmed", "created again"])
def test_lost_entries(redis: Redis, stream: str, how: str) -> None:
    add(redis, stream, 0, 10)
    source = create_source(redis, stream)
    end = source.latest(source.start(), Limit(1 << 30, 2))
    client = client_of(redis)
    if how == "trimmed":
        client.xtrim(stream, maxlen=3, approximate=False)
        expected = [7, 8, 9]
    else:
        client.delete(stream)
        client.xadd(stream, {"n": 99}, id="1-1")
        expected = [99]

    with pytest.raises(ComponentError, match="on_data_loss: continue"):
        source.latest(end, FAR)
    lenient = create_source(redis, stream, on_data_loss="continue")
    after = lenient.latest(end, FAR)
    lost, *rows = read(lenient, end, after)

    assert lost["code"] == "data-lost"
    assert stream in lost["message"]
    assert numbers(rows) == expected
    assert lenient.latest(after, FAR) == after


def test_an_entry_that_is_deleted_after_it_was_read_is_no_loss(redis: Redis, stream: str) -> None:
    add(redis, stream, 0, 4)
    source = create_source(redis, stream)
    end = source.latest(source.start(), Limit(1 << 30, 2))
    client_of(redis).xtrim(stream, minid=end[stream]["id"], approximate=False)

    assert numbers(read(source, end, source.latest(end, FAR))) == [2, 3]


def test_identifiers_that_no_offset_has_are_dead_letters(redis: Redis, stream: str) -> None:
    client = client_of(redis)
    client.xadd(stream, {"n": 1}, id="5-1")
    client.xadd(stream, {"n": 2}, id="18446744073709551615-1")
    source = create_source(redis, stream)

    rows = read(source, source.start(), source.latest(source.start(), FAR))

    assert [row.get("code") for row in rows] == [None, "bad-entry-id"]


def test_a_key_of_another_type(redis: Redis, stream: str) -> None:
    client_of(redis).set(stream, "x")
    source = create_source(redis, stream)

    with pytest.raises(ComponentError, match=f"the key '{stream}.*' is a string, not a stream"):
        source.start()
    with pytest.raises(ComponentError, match="not a stream"):
        list(source.probe())


def test_a_server_that_is_down_is_named() -> None:
    (port,) = ports.free()

    class Down:
        url = f"redis://127.0.0.1:{port}"

    with pytest.raises(ConnectionError, match=f"redis 127.0.0.1:{port}: .*refused"):
        create_source(Down(), "s").start()


def test_tls_and_a_password(certificates: Certificates) -> None:
    with Redis(password="change-me", tls=certificates) as server:
        tls = {"authority": str(certificates.authority)}
        source = create_source(server, "s", password="change-me", tls=tls)
        assert source.latest(source.start(), FAR)

        wrong = create_source(server, "s", password="wrong-word", tls=tls)
        with pytest.raises(ComponentError, match="refuses the login") as error:
            wrong.start()
        assert "wrong-word" not in f"{error.value!r} {wrong!r} {wrong.settings()!r}"
        with pytest.raises(ComponentError, match="certificate is not accepted"):
            create_source(server, "s", password="change-me").start()


def test_findings() -> None:
    class Server:
        url = "redis://u:p@h:70000/x"

    findings = create_source(Server(), "a", "a", user="u", tls={}).check()

    assert [finding.code for finding in findings] == ["url-with-password", "missing-password", "tls-unused", "duplicate-topic"]


def test_entry_ids() -> None:
    assert EntryId.parse(b"5-3").before == EntryId(5, 2)
    assert EntryId.parse("5-0").before == EntryId(4, (1 << 64) - 1)
    assert EntryId(0, 0).before == EntryId(0, 0)
    assert EntryId(1, 0).offset > EntryId(0, 2_000_000).offset
