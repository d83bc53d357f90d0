"""Sockets with a deadline for a whole exchange."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from connectors.shared.deadline import DeadlineSocket


@pytest.fixture
def pair() -> Iterator[tuple[DeadlineSocket, socket.socket]]:
    near, far = socket.socketpair()
    deadline = DeadlineSocket(near)
    yield deadline, far
    deadline.close()
    far.close()


def test_data_before_the_deadline_is_read(pair: tuple[DeadlineSocket, socket.socket]) -> None:
    near, far = pair
    near.set_deadline(5)
    far.sendall(b"one\ntwo")

    with near.makefile("rb") as file:
        assert (file.readline(), file.read(3)) == (b"one\n", b"two")


def test_a_peer_that_sends_byte_by_byte_does_not_extend_the_deadline(pair: tuple[DeadlineSocket, socket.socket]) -> None:
    near, far = pair
    done = threading.Event()

    def drip() -> None:
        while not done.wait(0.01):
            far.send(b"x")

    thread = threading.Thread(target=drip)
    thread.start()
    near.set_deadline(0.2)
    try:
        with near.makefile("rb") as file, pytest.raises(TimeoutError):
            file.read(1 << 20)
    finally:
        done.set()
        thread.join()


def test_sending_to_a_peer_that_reads_nothing_ends_at_the_deadline(pair: tuple[DeadlineSocket, socket.socket]) -> None:
    near, _ = pair
    near.set_deadline(0.2)

    with pytest.raises(TimeoutError):
        near.sendall(bytes(32 << 20))
