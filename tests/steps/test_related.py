"""The step `related`: what ECS collects, addresses, Community IDs."""

from __future__ import annotations

import pyarrow as pa

from etl.steps.related import Related

BATCH = pa.record_batch(
    {
        "source.ip": ["192.168.1.52", None, "2001:db8::1"],
        "source.address": pa.array(["gate", "gate", None]),
        "source.port": pa.array([54585, 2, 8], pa.int32()),
        "destination.ip": ["8.8.8.8", "8.8.8.8", "2001:db8::1"],
        "destination.port": pa.array([53, 53, 0], pa.int64()),
        "network.transport": ["udp", "udp", "ipv6-icmp"],
        "host.ip": pa.array([["10.0.0.1", "8.8.8.8", None], [], None], pa.list_(pa.string())),
        "user.name": ["anna", None, ""],
        "source.user.name": ["bo", None, None],
        "file.hash.sha256": ["aa", None, None],
        "url.domain": ["example.org", None, None],
        "other.name": ["x", "y", "z"],
        "_offset": [0, 10, 20],
    }
)


def test_values_of_all_fields_of_ecs_are_collected_once() -> None:
    events = Related().open(BATCH.schema)(BATCH).events

    assert events.column("related.ip").to_pylist() == [["192.168.1.52", "8.8.8.8", "10.0.0.1"], ["8.8.8.8"], ["2001:db8::1"]]
    assert events.column("related.user").to_pylist() == [["anna", "bo"], None, None]
    assert events.column("related.hash").to_pylist() == [["aa"], None, None]
    assert events.column("related.hosts").to_pylist() == [["example.org"], None, None]


def test_texts_that_travel_as_views_are_collected_too() -> None:
    texts = {name: pa.string_view() for name in BATCH.schema.names if BATCH.schema.field(name).type == pa.string()}
    views = pa.record_batch(
        {name: BATCH.column(name).cast(texts.get(name, BATCH.column(name).type)) for name in BATCH.schema.names}
    )

    events = Related().open(BATCH.schema)(views).events

    assert Related.takes_views
    assert events.to_pylist() == Related().open(BATCH.schema)(BATCH).events.to_pylist()


def test_addresses_are_filled_and_kept() -> None:
    events = Related().open(BATCH.schema)(BATCH).events

    assert events.column("source.address").to_pylist() == ["gate", "gate", "2001:db8::1"]
    assert events.column("destination.address").to_pylist() == ["8.8.8.8", "8.8.8.8", "2001:db8::1"]


def test_a_flow_has_its_community_id() -> None:
    events = Related().open(BATCH.schema)(BATCH).events

    assert events.column("network.community_id").to_pylist()[:2] == ["1:d/FP5EW3wiY1vCndhwleRRKHowQ=", None]


def test_an_id_that_an_event_has_stays() -> None:
    ids = pa.array(["1:given", None, None], pa.string())
    batch = BATCH.append_column("network.community_id", ids)

    events = Related().open(batch.schema)(batch).events

    assert events.column("network.community_id").to_pylist()[0] == "1:given"


def test_of_icmp_type_and_code_are_taken() -> None:
    batch = pa.record_batch(
        {
            "source.ip": ["192.168.0.89"],
            "destination.ip": ["192.168.0.1"],
            "source.port": pa.nulls(1, pa.int64()),
            "destination.port": pa.nulls(1, pa.int64()),
            "network.transport": ["icmp"],
            "type": [8],
            "code": [0],
        }
    )

    events = Related(icmp_type="type", icmp_code="code").open(batch.schema)(batch).events

    assert events.column("network.community_id").to_pylist() == ["1:X0snYXpgwiv9TZtqg64sgzUn6Dk="]


def test_an_option_names_other_fields() -> None:
    step = Related(user=["other.name"], community_id=False)

    events = step.open(BATCH.schema)(BATCH).events

    assert events.column("related.user").to_pylist() == [["x"], ["y"], ["z"]]
    assert "network.community_id" not in events.schema.names


def test_the_fields_are_those_announced() -> None:
    for step in (Related(), Related(hosts=["other.name"]), Related(community_id=False)):
        assert step.open(BATCH.schema)(BATCH).events.schema == step.fields(BATCH.schema)
        assert step.open(BATCH.schema)(BATCH.slice(0, 0)).events.schema == step.fields(BATCH.schema)


def test_nothing_is_made_of_fields_that_are_not_there() -> None:
    batch = pa.record_batch({"message": ["x"], "_offset": [0]})

    assert Related().open(batch.schema)(batch).events.equals(batch)


def test_unknown_fields_and_wrong_types_are_found() -> None:
    step = Related(ip=["source.pi", "source.port"], icmp_type="user.name", icmp_code="nothing")

    assert [(finding.code, finding.path) for finding in step.check(BATCH.schema)] == [
        ("unknown-field", ("ip", 0)),
        ("wrong-type", ("ip", 1)),
        ("wrong-type", ("icmp_type",)),
        ("unknown-field", ("icmp_code",)),
    ]
