"""`ClientTls` with the HTTP client: which servers it trusts, and which certificates it presents."""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fake_http import FakeServer
from pydantic import SecretStr
from servers.certificates import Certificates

from connectors.http.client import Client
from connectors.http.connection_settings import ConnectionSettings
from connectors.shared.tls import ClientTls
from etl.api import ComponentError

SECRET = "hunter2-key"


@contextmanager
def serve_tls(certificates: Certificates, tls: ClientTls, host: str = "127.0.0.1", clients: bool = False) -> Iterator[Client]:
    """A client of a server with TLS; ``clients``: the server requires a client certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.server.certificate, certificates.server.key)
    if clients:
        context.load_verify_locations(certificates.authority)
        context.verify_mode = ssl.CERT_REQUIRED
        context.maximum_version = ssl.TLSVersion.TLSv1_2  # with 1.3 the refusal and the end of the connection race each other
    with FakeServer(context=context).running() as server:
        client = Client(ConnectionSettings((f"https://{host}:{server.port}",), 10, tls))
        yield client
        client.close()


def trusting(certificates: Certificates, **more: object) -> ClientTls:
    return ClientTls.model_validate({"authority": str(certificates.authority), **more})


def test_a_certificate_of_a_known_authority_is_trusted(certificates: Certificates) -> None:
    with serve_tls(certificates, trusting(certificates)) as client:
        assert client.request("GET", "/").status == 200


def test_a_certificate_of_another_authority_is_not_trusted(certificates: Certificates) -> None:
    with (
        serve_tls(certificates, ClientTls()) as client,
        pytest.raises(ComponentError, match=r"127.0.0.1:\d+: the server's certificate"),
    ):
        client.request("GET", "/")


def test_a_certificate_with_another_name_needs_verify_authority(certificates: Certificates, tmp_path: Path) -> None:
    others = Certificates(tmp_path, names="DNS:elsewhere.example")

    with serve_tls(others, trusting(others)) as client, pytest.raises(ComponentError, match="see tls"):
        client.request("GET", "/")
    with serve_tls(others, trusting(others, verify="authority")) as client:
        assert client.request("GET", "/").status == 200
    with serve_tls(others, ClientTls(verify="none")) as client:
        assert client.request("GET", "/").status == 200


def test_the_client_certificate_is_presented(certificates: Certificates) -> None:
    pair = certificates.client
    shown = trusting(certificates, certificate=str(pair.certificate), key=str(pair.key))
    together = trusting(certificates, certificate=str(pair.together))

    for tls in (shown, together):
        with serve_tls(certificates, tls, clients=True) as client:
            assert client.request("GET", "/").status == 200
    with (
        serve_tls(certificates, trusting(certificates), clients=True) as client,
        pytest.raises(ComponentError, match="requires a client certificate"),
    ):
        client.request("GET", "/")


def test_an_encrypted_key_needs_its_password(certificates: Certificates, tmp_path: Path) -> None:
    locked, pair = tmp_path / "locked.key", certificates.client
    subprocess.run(["openssl", "pkcs8", "-topk8", "-in", pair.key, "-out", locked, "-passout", f"pass:{SECRET}"], check=True)
    options = {"certificate": str(pair.certificate), "key": str(locked)}

    assert ClientTls(**options, key_password=SecretStr(SECRET)).context()
    with pytest.raises(ComponentError, match="set key_password"):
        ClientTls(**options).context()
    with pytest.raises(ComponentError, match=r"locked\.key") as caught:
        ClientTls(**options, key_password=SecretStr("wrong")).context()
    assert "wrong)" not in str(caught.value)


def test_errors_name_missing_and_invalid_files(tmp_path: Path) -> None:
    empty = tmp_path / "empty.pem"
    empty.touch()

    for tls in (ClientTls(authority=str(empty)), ClientTls(certificate=str(empty))):
        with pytest.raises(ComponentError, match=r"empty.pem.*not a PEM file"):
            tls.context()
    for tls in (ClientTls(authority="/no/where"), ClientTls(certificate="/no/where")):
        with pytest.raises(ComponentError, match=r"/no/where.*No such file"):
            tls.context()


def test_old_tls_versions_are_refused() -> None:
    assert ClientTls().context().minimum_version == ssl.TLSVersion.TLSv1_2


def test_the_error_differs_for_a_server_without_tls_and_a_missing_one() -> None:
    with FakeServer().running() as server:
        client = Client(ConnectionSettings((f"https://127.0.0.1:{server.port}",), 10, ClientTls()))
        with pytest.raises(ComponentError, match="check that the port uses https"):
            client.request("GET", "/")


def test_options_that_need_another_option_are_findings() -> None:
    found = [
        *ClientTls(key="k", key_password=SecretStr(SECRET)).check("tls"),
        *ClientTls(authority="a", verify="none").check("tls"),
    ]

    assert [(f.code, f.path) for f in found] == [
        ("no-certificate", ("tls", "key")),
        ("no-certificate", ("tls", "key_password")),
        ("unused-option", ("tls", "authority")),
    ]
    assert hash(ClientTls(key_password=SecretStr(SECRET))) == hash(ClientTls(key_password=SecretStr(SECRET)))
    assert SECRET not in repr(ClientTls(key_password=SecretStr(SECRET)))
