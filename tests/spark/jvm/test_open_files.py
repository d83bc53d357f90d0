"""The limit of open files of a run."""

from __future__ import annotations

import resource

import pytest

from etl.api import EtlError
from etl.spark.jvm.open_files import MAX_LIMIT, allow_files


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The limits that were set; the last pair is in force."""
    now = [(256, 4096)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: now[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, both: now.append(both))
    return now


@pytest.mark.parametrize(("hard", "raised"), [(4096, 4096), (1 << 30, MAX_LIMIT), (resource.RLIM_INFINITY, MAX_LIMIT)])
def test_the_limit_is_raised_as_far_as_allowed(limits: list[tuple[int, int]], hard: int, raised: int) -> None:
    limits.append((256, hard))

    allow_files(1)

    assert limits[-1] == (raised, hard)


def test_a_limit_that_is_high_enough_stays(limits: list[tuple[int, int]]) -> None:
    limits.append((1 << 20, 1 << 20))

    allow_files(1)

    assert limits[-1] == (1 << 20, 1 << 20)


def test_the_error_for_a_limit_that_is_too_small_has_a_remedy(limits: list[tuple[int, int]]) -> None:
    limits.append((500, 500))
    allow_files(10)

    with pytest.raises(EtlError, match=r"20 queries needs 600 open files; .* have 500 open \(ulimit -n\): raise it to 4096"):
        allow_files(20)
