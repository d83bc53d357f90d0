"""The elasticsearch sink and source against a cluster with users, rights and TLS: OpenSearch with its security plugin."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from servers.certificates import Certificates
from servers.search.secured_opensearch import PASSWORD, READER, USER, SecuredOpenSearch

from connectors.elasticsearch.sink import ElasticsearchSink
from connectors.elasticsearch.source import ElasticsearchSource
from etl.api import IDENTITY, OFFSET, ComponentError, Limit, Task

pytestmark = [pytest.mark.servers, pytest.mark.slow]

EVENTS = pa.RecordBatch.from_pydict({"n": [1, 2, 3], OFFSET: [0, 1, 2], IDENTITY: ["a", "b", "c"]})
TASK = Task("p", "out", "split", "/nowhere", pa.schema([("n", pa.int64())]))


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredOpenSearch]:
    """Its certificate is for ``localhost`` only."""
    with SecuredOpenSearch(Certificates(tmp_path_factory.mktemp("secured"), names="DNS:localhost")) as server:
        yield server


def options(server: SecuredOpenSearch, **other: Any) -> dict[str, Any]:
    tls = {"authority": str(server.certificates.authority)}
    given = {"urls": [server.address], "index": "secured", "user": USER, "password": PASSWORD, "tls": tls}
    return {"type": "elasticsearch", **given, **other}


def test_an_authorised_user_writes_and_reads(secured: SecuredOpenSearch) -> None:
    sink = ElasticsearchSink.model_validate(options(secured))
    source = ElasticsearchSource.model_validate(options(secured, user=READER, fields={"n": "long"}))

    written = sink.open(TASK).write(EVENTS)
    secured.ask("POST", "/secured/_refresh")
    start = source.start()
    splits = source.splits(start, source.latest(start, Limit(1 << 62, None, bounded=True)), 2)
    read = [row["n"] for split in splits for batch in source.read(split) for row in batch.to_pylist()]

    assert (written.retryable, list(written.rejected), sorted(read)) == (None, [], [1, 2, 3])
    assert list(sink.probe(EVENTS.schema)) == []
    assert list(ElasticsearchSource.model_validate(options(secured, fields={"n": "long"})).probe()) == []
    assert [finding.severity for finding in source.probe()] == ["warning"], "a login that may only read passes"


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ({"password": "hunter2"}, "answers 401.*check user and password"),
        ({"user": None, "password": None}, "answers 401.*check user and password"),
        ({"user": READER}, "security_exception: no permissions for .*indices:"),
        ({"urls": ["https://127.0.0.1:PORT"]}, "the server's certificate is not accepted: .*127.0.0.1.*tls.authority"),
        ({"tls": None}, "the server's certificate is not accepted: .*tls.authority"),
        ({"urls": ["http://localhost:PORT"], "tls": None}, "without a response; is it https"),
    ],
    ids=["password", "nobody", "no right", "name", "authority", "no TLS"],
)
def test_an_unauthorised_user_gets_the_reason(secured: SecuredOpenSearch, other: dict[str, Any], reason: str) -> None:
    urls = [url.replace("PORT", str(secured.port)) for url in other.get("urls", [secured.address])]
    sink = ElasticsearchSink.model_validate(options(secured, **{**other, "urls": urls}))

    with pytest.raises((ComponentError, ConnectionError), match=reason) as raised:
        _refused(sink)

    assert str(secured.port) in str(raised.value)
    assert "hunter2" not in str(raised.value)


def _refused(sink: ElasticsearchSink) -> None:
    """Write, and raise the cause of the retryable events."""
    raise ConnectionError(sink.open(TASK).write(EVENTS).cause)
