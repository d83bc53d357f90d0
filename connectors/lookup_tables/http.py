"""The table `http`."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

import pyarrow as pa
from pydantic import Field, SecretStr

from connectors.http.access import Access, basic, bearer, check_login, check_secrets
from connectors.http.urls import Url, check_urls
from connectors.http.versions import condition, version_of
from connectors.lookup_tables.file import FileTable
from connectors.tls import ClientTls
from etl.api import ComponentError, Duration, Finding, LookupTable, Newer, Size

HeaderName = Annotated[str, Field(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")]

_PROBE_SECONDS = 5.0
_TEMPORARY = (408, 425, 429)


class HttpTable(LookupTable):
    """A table from a web server: CSV with a header, JSON lines, or a text as a whole.

    With `refresh` the server is asked that often, with `If-None-Match` or `If-Modified-Since` where its last answer had an
    `ETag` or `Last-Modified`; as long as the rows are the same it answers 304, without them. A server that sends neither, or
    heeds neither, sends all rows each time, and the table is built again when they are others. Redirects are not followed:
    credentials go where the URL says and nowhere else. Statuses of 500 and more, 408, 425, 429 and lost connections are
    temporary. The answer is held in memory while it is read, up to `max_bytes`, in the process that builds the table: of a
    larger one nothing is read where the server says its length, otherwise no more than `max_bytes`, and the table is refused.
    `format: text` makes the whole answer one row with the column `text`, which is its key, too: a file of rules for the step
    `rules`.

    ```yaml
    type: http
    url: https://feeds.example.org/bad-addresses.csv
    token: ${FEED_TOKEN:-}
    format: csv
    key: ip
    columns: {score: int}
    refresh: 1h
    ```
    """

    type: Literal["http"] = "http"
    url: Url = Field(description="Where the rows are.", examples=["https://feeds.example.org/bad-addresses.csv"])
    format: Literal["csv", "json", "text"] = Field(
        default="csv", description="What the server sends: CSV, JSON lines, or a text that is one row."
    )
    delimiter: str = Field(default=",", min_length=1, max_length=1, description="What stands between the fields of CSV.")
    header: tuple[str, ...] = Field(
        default=(), description="Names of the columns of CSV whose first line does not name them.", examples=[["ip", "lists"]]
    )
    headers: dict[HeaderName, SecretStr] = Field(
        default={}, description="Further headers of each request.", examples=[{"X-Api-Key": "${API_KEY}"}]
    )
    user: str | None = Field(default=None, description="Who logs in, with `password`.")
    password: SecretStr | None = Field(default=None, description="The user's password.", examples=["${PASSWORD}"])
    token: SecretStr | None = Field(default=None, description="A bearer token, instead of a user.", examples=["${TOKEN}"])
    tls: ClientTls | None = Field(default=None, description="Certificates, for an https URL.")
    timeout: Duration = Field(
        default=timedelta(seconds=60), description="How long a request and the whole of its answer may take.", gt=timedelta(0)
    )
    max_bytes: Size = Field(default=128 << 20, description="The largest answer that is taken.", gt=0, le=1 << 29)

    def check(self) -> Iterable[Finding]:
        yield from check_urls((self.url,), self.tls, "url")
        yield from check_login(self.user, self.password, {"token": self.token})
        yield from check_secrets({"token": self.token})
        for name, value in self.headers.items():
            for finding in check_secrets({name: value}):
                yield Finding(finding.code, finding.message, ("headers", name))

    def names(self) -> Sequence[str] | None:
        return ["text"] if self.format == "text" else None

    def probe(self) -> Iterable[Finding]:
        try:
            answer = self._ask("HEAD", min(self.timeout.total_seconds(), _PROBE_SECONDS))
        except OSError as error:
            yield Finding("unreachable", str(error), ("url",))
        except ComponentError as error:
            yield Finding("not-ready", str(error), ("url",))
        else:
            if 300 <= answer.status < 400 and "location" in answer.headers:
                yield Finding("not-ready", answer.said(), ("url",), "write that URL, if it is to be trusted")
            elif answer.status == 200 and (length := _length(answer)) > self.max_bytes:
                yield Finding(
                    "not-ready", f"{answer.place} has {length:,} bytes, more than max_bytes, {self.max_bytes:,}", ("url",)
                )
            elif answer.status >= 300 and answer.status not in (405, 501):
                yield Finding("not-ready", f"{answer.place} answers {answer.status} to HEAD", ("url",))

    def newer(self, columns: Sequence[str], version: str | None) -> Newer | None:
        answer = self._ask("GET", self.timeout.total_seconds(), condition(version))
        if answer.status == 304 and version is not None:
            return None
        self._refuse(answer)
        now = version_of(answer.headers, answer.body)
        return None if now == version else Newer(now, lambda: self._rows(answer, columns), lambda row: self._place(answer, row))

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        answer = self._ask("GET", self.timeout.total_seconds())
        self._refuse(answer)
        yield from self._rows(answer, columns)

    def _rows(self, answer: Any, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        if self.format == "text":
            yield self._whole(answer, columns)
            return
        with self._file(answer) as file:
            yield from file.read(columns)

    def _place(self, answer: Any, row: int) -> str | None:
        if self.format == "text":
            return None
        with self._file(answer) as file:
            return file.place(row)

    def _refuse(self, answer: Any) -> None:
        """Raise what an answer that is no table means."""
        if answer.status >= 500 or answer.status in _TEMPORARY:
            raise ConnectionError(answer.said(120))
        if answer.status != 200:
            raise ComponentError(answer.said(120))

    def _whole(self, answer: Any, columns: Sequence[str]) -> pa.RecordBatch:
        """The answer as a row."""
        if missing := [name for name in columns if name != "text"]:
            raise ComponentError(f"{answer.place} gives a row with the column 'text', and no {missing[0]!r}")
        try:
            text = answer.body.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise ComponentError(f"{answer.place} answers with a text that is not UTF-8: {error}") from error
        return pa.RecordBatch.from_pydict({"text": pa.array([text], pa.string())})

    @contextmanager
    def _file(self, answer: Any) -> Iterator[FileTable]:
        """The answer as a file, which messages call by the URL."""
        with tempfile.TemporaryDirectory(prefix="etl-table-") as folder:
            path = Path(folder) / "rows"
            path.write_bytes(answer.body)
            given = {"path": str(path), "format": self.format, "delimiter": self.delimiter, "header": self.header}
            file = FileTable.model_validate({**given, "key": list(self.key), "columns": dict(self.columns)})
            yield file.called(self.url)

    def _ask(self, method: str, seconds: float, more: Mapping[str, str] | None = None) -> Any:
        from connectors.http.client import Client
        from connectors.http.connection import AnswerTooLargeError

        try:
            with closing(Client(replace(self.access(), timeout=seconds))) as client:
                return client.ask(method, "", more=more or {})
        except AnswerTooLargeError as error:
            raise ComponentError(
                f"{error.server} answers with {error.length}more than max_bytes, {self.max_bytes:,}; "
                "raise max_bytes (at most 512MiB) if it is the right table"
            ) from error

    def access(self) -> Access:
        """For a client."""
        headers = dict(self.headers)
        if self.token is not None:
            headers["Authorization"] = bearer(self.token)
        elif self.user is not None:
            headers["Authorization"] = basic(self.user, self.password)
        return Access((self.url,), self.timeout.total_seconds(), self.tls, tuple(headers.items()), max_bytes=self.max_bytes)


def _length(answer: Any) -> int:
    """The length that an answer to HEAD announces; 0 where it says none."""
    text = answer.headers.get("content-length", "")
    return int(text) if text.isascii() and text.isdigit() else 0
