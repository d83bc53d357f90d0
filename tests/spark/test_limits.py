"""The number of files that a run may have open."""

from __future__ import annotations

import resource

import pytest

from etl.api import EtlError
from etl.spark.limits import ENOUGH, allow_files


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The limits now, last; what is set is put behind."""
    now = [(256, 4096)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: now[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, both: now.append(both))
    return now


@pytest.mark.parametrize(("hard", "raised"), [(4096, 4096), (1 << 30, ENOUGH), (resource.RLIM_INFINITY, ENOUGH)])
def test_the_limit_is_raised_as_far_as_it_goes(limits: list[tuple[int, int]], hard: int, raised: int) -> None:
    limits.append((256, hard))

    allow_files(1)

    assert limits[-1] == (raised, hard)


def test_a_limit_that_is_high_enough_stays(limits: list[tuple[int, int]]) -> None:
    limits.append((1 << 20, 1 << 20))

    allow_files(1)

    assert limits[-1] == (1 << 20, 1 << 20)


def test_a_limit_that_is_too_small_is_named_with_the_way_out(limits: list[tuple[int, int]]) -> None:
    limits.append((500, 500))
    allow_files(10)

    with pytest.raises(EtlError, match=r"20 queries needs 600 open files; .* have 500 open \(ulimit -n\): raise it to 4096"):
        allow_files(20)
