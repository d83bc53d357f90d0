"""Identities of events, whatever the batches are."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from etl.api import IDENTITY, OFFSET
from etl.delivery.identities import EventIdentities


def names(offsets: list[int], cuts: list[int]) -> list[str]:
    identities = EventIdentities("p")
    found: list[str] = []
    for first, last in zip([0, *cuts], [*cuts, len(offsets)], strict=True):
        batch = pa.RecordBatch.from_pydict({OFFSET: pa.array(offsets[first:last], pa.int64())})
        found += identities.add_to(batch).column(IDENTITY).to_pylist()
    return found


def test_the_identity_of_an_event_has_its_offset() -> None:
    assert names([7, 9, 40], []) == ["p-7", "p-9", "p-40"]


def test_identities_count_events_with_the_same_offset() -> None:
    assert names([7, 7, 7, 9, 11, 11], []) == ["p-7", "p-7.1", "p-7.2", "p-9", "p-11", "p-11.1"]


@given(st.data())
def test_identities_are_unique_and_do_not_depend_on_the_batches(data: st.DataObject) -> None:
    offsets = sorted(data.draw(st.lists(st.integers(0, 9), max_size=30)))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(offsets)), max_size=4)))

    found = names(offsets, cuts)

    assert found == names(offsets, [])
    assert len(set(found)) == len(offsets)
