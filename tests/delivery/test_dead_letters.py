"""Dead letters: what they say of a rejected event, whatever its fields are."""

import json

import pyarrow as pa

from etl.api import OFFSET, Rejects
from etl.delivery.dead_letters import SCHEMA, dead_letters


def test_bytes_of_a_rejected_event_are_base64_in_its_text() -> None:
    types = {"raw": pa.binary(), "parts": pa.list_(pa.binary()), "view": pa.binary_view(), "user.name": pa.string()}
    fields = pa.schema([*types.items(), (OFFSET, pa.int64())])
    row = {"raw": b"\xff\0", "parts": [b"a", None], "view": b"a", "user.name": "ann", OFFSET: 7}
    events = pa.RecordBatch.from_pylist([row], schema=fields)

    letters = dead_letters(Rejects(events, "some-code", "a reason"), "p", "step", "s", "0")

    assert letters.schema.names == [*SCHEMA.names, OFFSET]
    assert json.loads(letters.column("event")[0].as_py()) == {
        "raw": "/wA=",
        "parts": ["YQ==", None],
        "view": "YQ==",
        "user": {"name": "ann"},
    }
