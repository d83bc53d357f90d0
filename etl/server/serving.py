"""A server from start to stop: its session, its pipelines and its API."""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from ipaddress import ip_address
from pathlib import Path

from etl.api import EtlError
from etl.file_modes import private_files, replace_file
from etl.running.messages import Message, OnMessage
from etl.running.metrics_server import ListenAddress
from etl.running.otlp import OtlpSettings, exporting
from etl.running.planning import RunRequest
from etl.running.service import FAIR_SHARES, WAITING_PIPELINES, session_master
from etl.running.shared_session import SharedSession
from etl.server.access import Access
from etl.server.api_routes import server_samples
from etl.server.app import create_app
from etl.server.jobs_folder import JobsFolder
from etl.server.listening import Tls, listening
from etl.server.pipeline_server import PipelineServer
from etl.server.records import FOLDER
from etl.server.spark_engine import SparkEngine
from etl.server.studio.standalone import server_pages
from etl.server.studio.worker_process import WorkerProcess
from etl.server.tokens import Tokens
from etl.spark.jvm.open_files import allow_files
from etl.spark.masters import cores, is_local, local_master
from etl.spark.reports.log_relay import LogRelay, forward_driver_logs
from etl.spark.state.folder import StateFolder, StateLock, lock_state

CHECK_SECONDS = 1.0
"""Seconds between two looks whether Spark's JVM still runs."""

EXPECTED_QUERIES = 40
"""Queries for which the limit of open files is raised at the start."""


@dataclass(frozen=True, kw_only=True)
class ServeRequest:
    """Options of a server."""

    folder: Path
    state: Path
    """Below it each pipeline has its state folder."""
    listen: ListenAddress
    tokens: Path | None = None
    tls: Tls | None = None
    master: str = "local[*]"
    settings: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=lambda: os.environ)


def serve(request: ServeRequest, on_message: OnMessage, stop: threading.Event, on_ready: Callable[[str], None]) -> None:
    """Serve until ``stop`` is set; then stop all pipelines after their micro-batch. ``on_ready`` gets the URL of the API.

    Raises EtlError if it cannot start, and when Spark's JVM has ended, which a new server starts again.
    """
    access = _access(request)
    if not request.folder.is_dir():
        raise EtlError(f"there is no folder {request.folder}: make it, with a folder for each namespace below")
    with ExitStack() as stack:
        stack.enter_context(private_files())
        stack.enter_context(forward_driver_logs(LogRelay(logging.INFO, partial(_report_driver, on_message))))
        state = StateFolder(request.state / FOLDER)
        state.prepare()
        lock = stack.enter_context(lock_state(state, "another server uses it: choose another folder with --state"))
        session = _session(request, state)
        stack.callback(session.stop)
        engine = SparkEngine(session, _run_request(request), request.env)
        server = PipelineServer(JobsFolder(request.folder), request.state, engine)
        worker = stack.enter_context(closing(WorkerProcess()))
        app = create_app(server, access, server_pages(worker))
        address = stack.enter_context(listening(app, request.listen, request.tls))
        stack.callback(_stop, server, on_message)
        url = f"{'https' if request.tls else 'http'}://{_host(address.host)}:{address.port}"
        stack.enter_context(_announced(state, url))
        for note in _notes(request):
            on_message(note)
        server.on_message = on_message
        on_message(Message("listening", f"page at {url}, API at {url}/api", values={"url": url}))
        stack.enter_context(exporting(OtlpSettings.of(request.env), lambda: server_samples(server)))
        with session.delay_start():
            server.start()
        session.started()
        on_ready(url)
        _watch(session, lock, stop)


def _watch(session: SharedSession, lock: StateLock, stop: threading.Event) -> None:
    """Wait for the end. Raises EtlError when the JVM has ended, or the state folder was removed or replaced."""
    while not stop.wait(CHECK_SECONDS):
        lock.check()
        if (error := session.jvm_error()) is not None:
            raise error


def _stop(server: PipelineServer, on_message: OnMessage) -> None:
    on_message(Message("stopping", "stopping all pipelines after their micro-batch"))
    server.stop()


def _access(request: ServeRequest) -> Access:
    """The rights. Raises EtlError for a server that others could use without a token."""
    if request.tokens is None and not _is_loopback(request.listen.host):
        raise EtlError(
            f"anyone who reaches {request.listen.host} could run pipelines: give --tokens FILE with the tokens of those who may "
            "(`etl token` writes it), or listen on loopback"
        )
    tokens = None if request.tokens is None else Tokens(request.tokens)
    if tokens is not None and not len(tokens):
        raise EtlError(f"{request.tokens} has no token, so that nobody could use the server: `etl token` writes one")
    return Access(tokens, secure=request.tls is not None)


def _report_driver(on_message: OnMessage, level: str, text: str, pipeline: str) -> None:
    """Hand on what this process logs about no pipeline; the rest comes from the runs."""
    if not pipeline:
        on_message(Message("component", text, level))


def _notes(request: ServeRequest) -> Iterator[Message]:
    """What an operator should know about the way in which the server listens."""
    if request.tls is None and not _is_loopback(request.listen.host):
        text = "tokens and events are not encrypted: give --tls-cert and --tls-key, or let only a proxy with TLS reach this port"
        yield Message("no-tls", text, "warning")


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _host(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _session(request: ServeRequest, state: StateFolder) -> SharedSession:
    allow_files(EXPECTED_QUERIES)
    master = session_master(local_master(request.master), 1 + WAITING_PIPELINES)
    settings = {**FAIR_SHARES, "spark.sql.shuffle.partitions": str(cores(request.master)), **request.settings}
    return SharedSession("sluice-server", master, state.spark_log, settings, at_once=cores(request.master))


def _run_request(request: ServeRequest) -> RunRequest:
    chosen = str(request.state) if is_local(request.master) else f"file://{request.state}"
    return RunRequest(master=request.master, state=chosen)


@contextmanager
def _announced(state: StateFolder, url: str) -> Iterator[None]:
    """While the body runs, clients on this machine find the server in its state folder."""
    path, content = state.root / "server.json", json.dumps({"url": url, "pid": os.getpid()}).encode()
    replace_file(path, content)
    try:
        yield
    finally:
        with suppress(OSError):
            if path.read_bytes() == content:  # else that of a server which has replaced the folder
                path.unlink()
