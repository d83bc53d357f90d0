"""OpenSearch with users and TLS: the node of `opensearch_server` with the security plugin beside it."""

from __future__ import annotations

import base64
import http.client
import re
import ssl
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

from servers import cache, maven
from servers.certificates import Certificates
from servers.java import class_path
from servers.search.opensearch_server import OpenSearch
from servers.search.search_node import SECONDS
from servers.server import copy

PLUGIN = "org.opensearch.security.OpenSearchSecurityPlugin"
USER, READER, PASSWORD = "sluice", "reader", "admin"
HASH = "$2a$12$VcCDgh2NDk07JGN0rjGbM.Ad41qVR/YFJcgHp0UGns5JDymv..TOG"
"""Hash of the password, from the plugin's examples."""
USERS = f"""\
_meta: {{type: internalusers, config_version: 2}}
{USER}: {{hash: "{HASH}", backend_roles: [admin]}}
{READER}: {{hash: "{HASH}", opendistro_security_roles: [readall]}}
"""


class SecuredOpenSearch(OpenSearch):
    """OpenSearch 2 with authentication and TLS: one user has all rights, one may only read."""

    name: ClassVar[str] = "secured_opensearch"
    options: ClassVar[tuple[str, ...]] = (f"-Dsluice.plugin={PLUGIN}",)

    def __init__(self, certificates: Certificates) -> None:
        self.certificates = certificates
        secured = "plugins.security"
        pair = {"pemcert_filepath": "server.pem", "pemkey_filepath": "server.key", "pemtrustedcas_filepath": "authority.pem"}
        encrypted = {f"{secured}.ssl.{layer}.{name}": file for layer in ("http", "transport") for name, file in pair.items()}
        named = {f"{secured}.nodes_dn": "CN=server", f"{secured}.authcz.admin_dn": "CN=client"}
        made = {f"{secured}.ssl.http.enabled": "true", f"{secured}.allow_default_init_securityindex": "true"}
        super().__init__(
            settings={**encrypted, **named, **made, f"{secured}.ssl.transport.enforce_hostname_verification": "false"}
        )
        self.address = f"https://localhost:{self.port}"

    def path(self) -> str:
        return class_path(super().path(), _plugin() / "lib" / "*")

    def prepare(self) -> None:
        """Write the plugin's example configuration, with the users and certificates of the tests."""
        copy(_plugin() / "config", self.folder / "config" / "opensearch-security")
        (self.folder / "config" / "opensearch-security" / "internal_users.yml").write_text(USERS)
        copy(self.certificates.folder, self.folder / "config")

    def ask(self, method: str, path: str, body: bytes | None = None, kind: str = "application/json") -> tuple[int, bytes]:
        """Send a request of the user with all rights."""
        trusted = ssl.create_default_context(cafile=str(self.certificates.authority))
        connection = http.client.HTTPSConnection("localhost", self.port, timeout=SECONDS, context=trusted)
        login = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        try:
            connection.request(method, path, body, {"content-type": kind, "authorization": f"Basic {login}"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        except http.client.HTTPException as error:
            raise ConnectionError(f"{self.address}: {error!r}") from error
        finally:
            connection.close()


def _plugin() -> Path:
    """Return the plugin's jars that the node lacks, and its example configuration."""
    zipped = maven.jars("opensearch_security")
    return cache.fetch_once(f"{zipped.name}-unpacked", lambda part: _unpack(zipped, part))


def _unpack(zipped: Path, part: Path) -> None:
    (archive,) = (zipped / "lib").glob("*.zip")
    known = {_project(jar.name) for jar in (maven.jars("opensearch") / "lib").iterdir()}
    with zipfile.ZipFile(archive) as content:
        jars = [name for name in content.namelist() if name.endswith(".jar") and _project(name) not in known]
        _extract(content, jars, part / "lib")
        _extract(content, [name for name in content.namelist() if re.fullmatch(r"config/\w+\.yml", name)], part)


def _extract(content: zipfile.ZipFile, names: Iterable[str], folder: Path) -> None:
    for name in names:
        content.extract(name, folder)


def _project(jar: str) -> str:
    """Return a jar's name without its version."""
    return re.split(r"-\d", jar)[0]
