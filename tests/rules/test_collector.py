"""The garbage collector runs again behind what paused it, whatever happened."""

from __future__ import annotations

import gc

import pytest

from etl.rules.gc_pause import paused


def test_it_runs_again_after_an_error() -> None:
    # given
    assert gc.isenabled()
    seen = []

    def fail() -> None:
        with paused():
            seen.append(gc.isenabled())
            raise ValueError("bad")

    # when
    with pytest.raises(ValueError, match="bad"):
        fail()

    # then
    assert seen == [False]
    assert gc.isenabled()


def test_who_switched_it_off_keeps_it_off() -> None:
    # given
    gc.disable()

    # when
    try:
        with paused():
            pass

        # then
        assert not gc.isenabled()
    finally:
        gc.enable()
