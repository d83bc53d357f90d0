"""The garbage collector is enabled again after a pause, also after an error."""

from __future__ import annotations

import gc

import pytest

from etl.steps.detection.rules import pause_garbage_collection


def test_it_is_enabled_again_after_an_error() -> None:
    # given
    assert gc.isenabled()
    seen = []

    def fail() -> None:
        with pause_garbage_collection():
            seen.append(gc.isenabled())
            raise ValueError("bad")

    # when
    with pytest.raises(ValueError, match="bad"):
        fail()

    # then
    assert seen == [False]
    assert gc.isenabled()


def test_a_collector_that_was_disabled_stays_disabled() -> None:
    # given
    gc.disable()

    # when
    try:
        with pause_garbage_collection():
            pass

        # then
        assert not gc.isenabled()
    finally:
        gc.enable()
