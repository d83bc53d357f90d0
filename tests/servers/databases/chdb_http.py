"""ClickHouse's HTTP interface over chDB, its engine as a library: ``python chdb_http.py PORT FOLDER USER PASSWORD``.

Statements, types, errors and tables are the engine's. What is ours is the HTTP around it: parameters become settings, the
body of an INSERT is a file that the engine reads, and an error has the header and the status of ClickHouse. Statements run
one after the other.
"""

from __future__ import annotations

import base64
import gzip
import os
import re
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from chdb.session import Session

STATUSES = {60: 404, 81: 404, 16: 404, 516: 403, 497: 403, 252: 500, 241: 500, 202: 503}
"""Codes whose status is not 400 or 500, as in `exceptionCodeToHTTPStatus` of ClickHouse."""

BAD_REQUESTS = {6, 26, 27, 38, 41, 53, 62, 69, 70, 72, 117, 407, 469, 676, 691}
SAVES_BODY = re.compile(r"\AINSERT .* FORMAT (\w+)\s*\Z", re.DOTALL)


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    session: Session
    login: tuple[str, str]
    lock = threading.Lock()

    def do_GET(self) -> None:
        self.answer(200, b"Ok.\n")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        if self.headers.get("Authorization") != "Basic " + base64.b64encode(":".join(self.login).encode()).decode():
            self.fail("Code: 516. DB::Exception: Authentication failed: password is incorrect. (AUTHENTICATION_FAILED)")
            return
        settings = dict(parse_qsl(urlsplit(self.path).query))
        sql, output = settings.pop("query", ""), settings.pop("default_format", "TabSeparated")
        try:
            with self.lock:
                self.answer(200, self.run(sql, body, settings, output))
        except RuntimeError as error:
            self.fail(str(error))

    def run(self, sql: str, body: bytes, settings: dict[str, str], output: str) -> bytes:
        """Run a statement with its data."""
        found = SAVES_BODY.match(sql)
        if found is None:
            return self.session.query(sql + body.decode(), output).bytes() or b""
        texts = ", ".join("{} = '{}'".format(name, value.replace("'", "\\'")) for name, value in settings.items())
        with tempfile.NamedTemporaryFile(dir=os.getcwd()) as file:
            file.write(body)
            file.flush()
            statement = sql[: found.start(1) - len("FORMAT ")] + f"FROM INFILE '{file.name}' COMPRESSION 'none' "
            return self.session.query(f"{statement} SETTINGS {texts} FORMAT {found[1]}").bytes() or b""

    def fail(self, text: str) -> None:
        """Answer as ClickHouse does after an exception."""
        found = re.search(r"Code: (\d+)", text)
        code = int(found[1]) if found else 1000
        status = 400 if code in BAD_REQUESTS else STATUSES.get(code, 500)
        self.answer(status, text[found.start() if found else 0 :].encode(), {"X-ClickHouse-Exception-Code": str(code)})

    def answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        """Send a response."""
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log errors of the engine only."""


def main() -> None:
    """Serve until the process is ended."""
    port, folder, user, password = sys.argv[1:]
    Handler.session = Session(str(Path(folder) / "data"))
    Handler.session.query("CREATE DATABASE IF NOT EXISTS sluice")
    Handler.session.query("USE sluice")
    Handler.login = (user, password)
    ThreadingHTTPServer.daemon_threads = True
    ThreadingHTTPServer(("127.0.0.1", int(port)), Handler).serve_forever()


if __name__ == "__main__":
    main()
