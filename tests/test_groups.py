"""`make test` divides the tests among its processes by groups: a file, or all tests with servers of one kind."""

from __future__ import annotations

from itertools import groupby

import pytest


def test_a_file_is_a_group_of_its_own_under_make_test(request: pytest.FixtureRequest) -> None:
    command = getattr(request.config, "workerinput", {}).get("mainargv", [])

    _, _, group = request.node.nodeid.partition("@")

    assert group == ("tests/test_groups.py" if "loadgroup" in command else "")


def test_the_tests_of_a_group_follow_each_other(request: pytest.FixtureRequest) -> None:
    groups = [marker.args[0] for item in request.session.items if (marker := item.get_closest_marker("xdist_group"))]

    runs = [group for group, _ in groupby(groups)]

    assert len(runs) == len(set(runs))
