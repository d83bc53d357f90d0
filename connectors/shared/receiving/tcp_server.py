"""Receivers over TCP and TLS that acknowledge: an asyncio server in a thread, and the journal that stores their events.

While the journal or the disk is full, connections are not read and nothing is acknowledged, so senders wait.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any

from connectors.shared.journal.event_blocks import Frames, Sender
from connectors.shared.journal.group_commit import TOO_LARGE, GroupCommit
from connectors.shared.journal.options import JournalOptions
from connectors.shared.journal.writer import JournalWriter
from connectors.shared.receiving.allowed_networks import AllowedNetworks
from connectors.shared.receiving.file_limit import raise_file_limit
from connectors.shared.receiving.receive_counters import ReceiveCounters
from connectors.shared.receiving.server_tls import ServerTls
from connectors.shared.receiving.tcp_address import TcpAddress
from etl.tls_listener import TlsListener

IDLE_SECONDS = 300.0
"""Seconds after which a connection that sends nothing is closed."""

HANDSHAKE_SECONDS = 10.0
"""Seconds that a TLS handshake may take."""

SILENT_SECONDS = 10.0
"""How long a connection has to be silent before a new one may take its place; its sender sends again what is not acknowledged."""

RETRY_SECONDS = 0.5
"""How long events wait before they are stored again, when the journal or the disk was full."""

MAX_BUFFERED_BYTES = 256 << 20
"""Bytes of messages in memory that are not stored, over all connections; one that brings more ends."""

CHUNK_BYTES = 256 << 10
_BACKLOG = 1024
_STOP_SECONDS = 5.0


log = logging.getLogger("sluice.source.tcp")


class SenderError(Exception):
    """What a sender sent is not what its protocol says: its connection ends."""


@dataclass(frozen=True)
class TcpOptions:
    """What a receiver needs to know."""

    owner: str
    """Type of the source, for messages."""

    addresses: tuple[TcpAddress, ...]
    connections: int
    allow: tuple[str, ...]
    tls: ServerTls | None
    journal: JournalOptions


class BufferedBytes:
    """Bytes of messages in memory, over all connections of a receiver."""

    def __init__(self) -> None:
        self.bytes = 0

    def replace(self, before: int, now: int) -> None:
        """Count those of a connection. Raises SenderError if there are too many."""
        if now > before and self.bytes - before + now > MAX_BUFFERED_BYTES:
            raise SenderError(
                f"all connections together wait with more than {MAX_BUFFERED_BYTES >> 20} MiB: it has to send again"
            )
        self.bytes += now - before


class Connection:
    """A connection of a sender: reads within time limits, and stores events."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, commits: GroupCommit, buffered: BufferedBytes
    ) -> None:
        self._reader, self._writer, self._commits = reader, writer, commits
        self._all_buffered, self._buffered = buffered, 0
        self._last_received_at, self._stores = time.monotonic(), False
        peer = writer.get_extra_info("peername")
        self.sender = Sender.from_socket_name(peer[0], peer[1]) if peer else Sender("")

    @property
    def silent_since(self) -> float | None:
        """Since when nothing has come; None while events of it are being stored."""
        return None if self._stores else self._last_received_at

    def end(self) -> None:
        """End the connection at once."""
        self._writer.transport.abort()

    async def read_some(self) -> bytes:
        """Return the next bytes, none at the end. Raises TimeoutError."""
        async with asyncio.timeout(IDLE_SECONDS):
            data = await self._reader.read(CHUNK_BYTES)
        self._last_received_at = time.monotonic()
        return data

    async def read_exactly(self, size: int) -> bytes:
        """Return the next bytes. Raises IncompleteReadError at the end, TimeoutError."""
        own_bytes, left, parts = self._buffered, size, []
        async with asyncio.timeout(IDLE_SECONDS):
            while left > CHUNK_BYTES:
                parts.append(await self._reader.readexactly(CHUNK_BYTES))
                left -= CHUNK_BYTES
                self._last_received_at = time.monotonic()
                self.hold(own_bytes + size - left)
            parts.append(await self._reader.readexactly(left))
        self._last_received_at = time.monotonic()
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def hold(self, size: int) -> None:
        """Count the bytes that this connection holds in memory now. Raises SenderError if all together hold too many."""
        self._all_buffered.replace(self._buffered, size)
        self._buffered = size

    async def write(self, data: bytes) -> None:
        """Send an answer."""
        self._writer.write(data)
        async with asyncio.timeout(IDLE_SECONDS):
            await self._writer.drain()

    async def store(
        self, frames: Frames, contexts: Sequence[str | None] = (None,), context_of_row: Any = None, keep_alive: bytes = b""
    ) -> None:
        """Return when the events are on the disk, however long that takes. Meanwhile ``keep_alive`` is sent to the sender.

        ``contexts`` is what events have in common, ``context_of_row`` the context of each where there are several.
        Raises OSError or EOFError if the sender has gone: it sends the events again; SenderError if they cannot be stored.
        """
        self._stores = True
        try:
            await self._store(frames, contexts, context_of_row, keep_alive)
        finally:
            self._stores, self._last_received_at = False, time.monotonic()

    async def _store(self, frames: Frames, contexts: Sequence[str | None], context_of_row: Any, keep_alive: bytes) -> None:
        self.hold(len(frames.data))
        loop = asyncio.get_running_loop()
        senders = [self.sender._replace(context=context) for context in contexts]
        while True:
            stored: asyncio.Future[str] = loop.create_future()

            def on_commit(problem: str, stored: asyncio.Future[str] = stored) -> None:
                with suppress(RuntimeError):  # the loop has been closed
                    loop.call_soon_threadsafe(_set_result, stored, problem)

            self._commits.add(frames, senders, context_of_row, on_commit)
            problem = await stored
            if not problem:
                self.hold(0)
                return
            if problem == TOO_LARGE:
                raise SenderError(problem)
            if keep_alive:
                await self.write(keep_alive)
            await asyncio.sleep(RETRY_SECONDS)
            if self._reader.at_eof():
                raise EOFError


class TcpProtocol(ABC):
    """What the senders of one kind say."""

    @abstractmethod
    async def serve(self, connection: Connection) -> None:
        """Store what a connection sends and acknowledge it, until it ends. Raises SenderError."""


class TcpReceiver:
    """Receives from `start` to `stop`, and writes the journal of a folder."""

    def __init__(self, options: TcpOptions, protocol: TcpProtocol, folder: str) -> None:
        self._options, self._protocol, self._folder = options, protocol, folder
        self.ports: list[int] = []
        """Ports of the addresses, in their order."""
        self._open, self._buffered = set[Connection](), BufferedBytes()
        self._allowed, self._counters = AllowedNetworks(options.allow), ReceiveCounters(options.owner)
        self._closing = ExitStack()

    def start(self) -> None:
        """Open the sockets. Raises ComponentError if one cannot be opened."""
        options = self._options
        tls = options.tls.context(options.owner) if options.tls else None
        raise_file_limit(options.connections)
        with ExitStack() as stack:
            sockets = [(one.open(options.owner, _BACKLOG, stack), tls if one.is_encrypted else None) for one in options.addresses]
            self.ports = [sock.getsockname()[1] for sock, _ in sockets]
            journal = JournalWriter(self._folder, options.journal)
            stack.callback(journal.close)
            self._commits = GroupCommit(journal)
            stack.callback(self._commits.close)
            self._start_thread(sockets, stack)
            self._closing = stack.pop_all()

    def stop(self) -> None:
        """Close connections and sockets; what is not acknowledged stays with its sender."""
        self._closing.close()
        self._counters.log_new()

    def dropped(self) -> Mapping[str, int]:
        """Return nothing: what is not acknowledged stays with its sender."""
        return {}

    def _start_thread(self, sockets: Sequence[tuple[socket.socket, ssl.SSLContext | None]], stack: ExitStack) -> None:
        started, self._loop = threading.Event(), asyncio.new_event_loop()
        stopping = asyncio.Event()

        async def run() -> None:
            servers = [await self._listen(sock, tls) for sock, tls in sockets]
            started.set()
            await stopping.wait()
            for server in servers:
                server.close()
            tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=_STOP_SECONDS) if tasks else None

        thread = threading.Thread(
            target=copy_context().run, args=(self._loop.run_until_complete, run()), name=self._options.owner, daemon=True
        )
        thread.start()
        started.wait()
        stack.callback(self._loop.close)
        stack.callback(thread.join)
        stack.callback(self._loop.call_soon_threadsafe, stopping.set)

    async def _listen(self, sock: socket.socket, tls: ssl.SSLContext | None) -> asyncio.Server | TlsListener:
        if tls is None:
            return await asyncio.start_server(self._serve, sock=sock)
        return TlsListener(
            sock, tls, lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader(), self._serve), HANDSHAKE_SECONDS
        ).start()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection; an error ends this one only."""
        connection = Connection(reader, writer, self._commits, self._buffered)
        try:
            if reason := self._refusal(connection.sender.address):
                self._counters.count(reason, f"of {connection.sender.address}")
                return
            self._open.add(connection)
            try:
                await self._protocol.serve(connection)
            finally:
                connection.hold(0)
                self._open.discard(connection)
        except SenderError as error:
            self._counters.count("damaged", f"of {connection.sender.address}: {error}")
        except (OSError, EOFError, asyncio.CancelledError):
            pass  # the sender has gone, is silent for too long, or the run ends
        except Exception:
            log.exception("%s: a connection ends; its sender has to send again", self._options.owner)
        finally:
            writer.transport.abort()

    def _refusal(self, address: str) -> str:
        if not self._allowed(address):
            return "not-allowed"
        return "" if len(self._open) < self._options.connections or self._end_silent() else "too-many"

    def _end_silent(self) -> bool:
        """End the connection that is silent for longest, if it is for some seconds, so that it keeps out no other."""
        since = {one: one.silent_since for one in self._open}
        silent = [(at, id(one), one) for one, at in since.items() if at is not None]
        if not silent or time.monotonic() - min(silent)[0] < SILENT_SECONDS:
            return False
        longest = min(silent)[2]
        self._open.discard(longest)
        longest.end()
        return True


def _set_result(future: asyncio.Future[str], problem: str) -> None:
    if not future.done():
        future.set_result(problem)
