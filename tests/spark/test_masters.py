"""A cluster's master, asked before Spark starts."""

from __future__ import annotations

import socket

import pytest

from etl.api import EtlError
from etl.spark.masters import addresses, check_reachable


def closed() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def test_a_dead_master_is_named_with_its_address() -> None:
    port = closed()

    with pytest.raises(EtlError, match=rf"no master answers at spark://127.0.0.1:{port} \(.*:{port}: connection refused\)"):
        check_reachable(f"spark://127.0.0.1:{port}")


def test_one_of_several_that_answers_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        check_reachable(f"spark://127.0.0.1:{closed()},127.0.0.1:{port}")
        check_reachable(f"k8s://https://127.0.0.1:{port}")


@pytest.mark.parametrize("master", ["local[*]", "yarn", "local-cluster[1,1,512]"])
def test_masters_without_an_address_are_not_asked(master: str) -> None:
    check_reachable(master)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a:1,b", [("a", 1), ("b", 7)]),
        ("https://k.example.org:6443", [("k.example.org", 6443)]),
        ("http://k/path", [("k", 7)]),
    ],
)
def test_addresses(text: str, found: list[tuple[str, int]]) -> None:
    assert list(addresses(text, 7)) == found
