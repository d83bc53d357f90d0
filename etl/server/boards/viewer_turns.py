"""How long each of many viewers waits before its next request, so that all of them together cost a server little.

A viewer is a connection that asks for a shared answer. All connections together get `TURNS_PER_SECOND` requests a second, and
each client, that is an address with a token, gets the same share of them, as far as it needs it. A connection counts once however
often it asks: a client that does not wait takes no turn from others.
"""

from __future__ import annotations

from collections.abc import Hashable

POLL_AFTER = "Poll-After"
"""The header of an answer: seconds that a viewer waits at least; 0 while viewers are few."""

TURNS_PER_SECOND = 20
"""Requests a second of all viewers together: an answer that is there already costs about 0.1 ms of CPU."""

MAX_PAUSE_SECONDS = 30.0
"""The longest pause."""


_NOBODY = object()


class ViewerTurns:
    """The connections of viewers that are open. All methods are called in the event loop."""

    def __init__(self) -> None:
        self._client_of: dict[Hashable, Hashable] = {}
        self._counts: dict[Hashable, int] = {}
        """Client → connections."""
        self._share = float(TURNS_PER_SECOND)
        """Requests a second that a client gets at most."""
        self.longest_pause = 0.0
        """The longest pause of any viewer, in seconds."""

    def pause(self, client: Hashable, connection: Hashable) -> float:
        """The seconds until the next turn of a connection, which is a viewer of a client from now on."""
        if self._client_of.get(connection, _NOBODY) != client:
            self.remove(connection)
            self._client_of[connection] = client
            self._counts[client] = self._counts.get(client, 0) + 1
            self._share_out()
        return self._pause_of(self._counts[client])

    def remove(self, connection: Hashable) -> None:
        """A connection is closed."""
        client = self._client_of.pop(connection, _NOBODY)
        if client is _NOBODY:
            return
        self._counts[client] -= 1
        if not self._counts[client]:
            del self._counts[client]
        self._share_out()

    def _pause_of(self, count: int) -> float:
        """The pause between two requests of a viewer, by the number of viewers of its client."""
        if len(self._client_of) <= TURNS_PER_SECOND:
            return 0.0
        return min(MAX_PAUSE_SECONDS, count / min(count, self._share))

    def _share_out(self) -> None:
        """Max-min fairness: a client with few connections needs less than an equal part, and the others share what is left."""
        left, clients = float(TURNS_PER_SECOND), len(self._counts)
        self._share = left
        for count in sorted(self._counts.values()):
            self._share = left / clients
            if count >= self._share:
                break
            left, clients = left - count, clients - 1
        self.longest_pause = self._pause_of(max(self._counts.values(), default=0))
