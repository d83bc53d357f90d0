"""Sockets that nobody closes."""

import socket

import pytest


def test_a_socket_that_nobody_closes_says_which_test_opened_it() -> None:
    opened = socket.socket()
    number = opened.fileno()
    with pytest.warns(ResourceWarning, match=r"unclosed <socket.* opened by .*test_a_socket_that_.*test_open_sockets\.py"):
        del opened
    with socket.socket() as another:
        assert another.fileno() == number, "it was closed all the same"
