"""The receiver of a source: opens the sockets, and serves them in a thread until it is stopped."""

from __future__ import annotations

import logging
import resource
import ssl
import threading
import time
from collections.abc import Mapping
from contextvars import copy_context

from connectors.journal.writer import JournalWriter
from connectors.syslog_receiver.allow import Allowed
from connectors.syslog_receiver.counts import Counts
from connectors.syslog_receiver.datagrams import Datagrams
from connectors.syslog_receiver.doors import Door, Mailbox
from connectors.syslog_receiver.loop import Loop
from connectors.syslog_receiver.places import Place, listening
from connectors.syslog_receiver.terms import Terms

_OTHER_FILES = 512
"""Files that a driver has open besides connections."""

_IDLE_SECONDS = 0.25
_TROUBLE_SECONDS = 1.0
_LAST_SECONDS = 1.0
"""How long a receiver that stops goes on reading what had been sent to it before."""

_PATIENCE_SECONDS = 10.0
"""How long it waits for a disk that is full."""

log = logging.getLogger("sluice.source.syslog")


class SyslogReceiver:
    """Listens from `start` to `stop`, and fills the journal of a folder."""

    def __init__(self, terms: Terms, folder: str) -> None:
        self._terms, self._folder = terms, folder
        self.counts = Counts()
        self.ports: list[int] = []
        """Of the places, in their order; 0 for a path."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=copy_context().run, args=(self._run,), name="syslog", daemon=True)

    def start(self) -> None:
        """Open the sockets. Raises ComponentError when one cannot be."""
        tls = self._terms.tls.context() if self._terms.tls else None
        _room_for(self._terms.connections)
        self._journal = JournalWriter(self._folder, self._terms.journal)
        self._loop = Loop(self._journal, self.counts, self._terms.connections)
        allowed = Allowed(self._terms.allow)
        try:
            for place in self._terms.places:
                self._listen(place, allowed, tls)
        except BaseException:
            self._loop.close_listeners()
            self._loop.close()
            self._journal.close()
            raise
        self._thread.start()

    def stop(self) -> None:
        """Close them, after what had been sent before is in the journal."""
        self._stopping.set()
        self._thread.join(_PATIENCE_SECONDS)
        self._journal.stop_waiting()
        self._thread.join()
        self._journal.close()
        self.counts.tell(at_once=True)

    def dropped(self) -> Mapping[str, int]:
        """Messages that came and were lost, as far as anybody knows: those of connections that broke are not among them."""
        return self.counts.dropped()

    def _listen(self, place: Place, allowed: Allowed, tls: ssl.SSLContext | None) -> None:
        terms = self._terms
        sock = listening(place, terms.buffer_bytes, terms.permissions)
        self.ports.append(0 if place.unix else sock.getsockname()[1])
        if place.datagram:
            box = Datagrams(terms.max_message_bytes)
            self._loop.listen(Mailbox(place, sock, box, allowed, self._journal, self.counts))
        else:
            context = tls if place.scheme == "tls" else None
            self._loop.listen(Door(place, sock, terms.max_message_bytes, allowed, context, self._loop.enter, self.counts))

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._turn(_IDLE_SECONDS)
        until = time.monotonic() + _LAST_SECONDS
        while self._turn(0) and time.monotonic() < until:
            pass
        self._loop.close_listeners()
        self._loop.close()

    def _turn(self, seconds: float) -> bool:
        """One turn. A defect in it is told of, and others follow: who listens no more loses everything."""
        try:
            return self._loop.turn(seconds)
        except Exception:
            log.exception("syslog: what came just now may be lost")
            self._stopping.wait(_TROUBLE_SECONDS)
            return False


def _room_for(connections: int) -> None:
    """Let this process open as many files as it takes, as far as the system allows."""
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + _OTHER_FILES
    if now != resource.RLIM_INFINITY and now < wanted:
        allowed = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, most))
