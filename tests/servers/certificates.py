"""A certificate authority for tests, with certificates of a server, a client, and a server with another name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from servers.command import find, run

DAYS = 2
HINT = "install openssl (Debian: apt-get install openssl)"


@dataclass(frozen=True)
class Pair:
    """A certificate with its key (PKCS 8) as PEM files; the file ``together`` has both."""

    certificate: Path
    key: Path
    together: Path


class Certificates:
    """Certificates in a folder; the server's names are ``localhost`` and 127.0.0.1 unless ``names`` sets others."""

    def __init__(self, folder: Path, names: str = "DNS:localhost,IP:127.0.0.1") -> None:
        self.folder = folder
        self._openssl = find("openssl", HINT)
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)  # a database that runs as another user reads them
        self.authority = self._authority()
        self.server = self._signed("server", names)
        self.client = self._signed("client", "DNS:client")

    def _authority(self) -> Path:
        made, key = self.folder / "authority.pem", self.folder / "authority.key"
        extension = "basicConstraints=critical,CA:TRUE"
        self._request("-x509", "-days", DAYS, "-keyout", key, "-out", made, "-subj", "/CN=sluice tests", "-addext", extension)
        return made

    def _signed(self, name: str, names: str) -> Pair:
        pair = Pair(self.folder / f"{name}.pem", self.folder / f"{name}.key", self.folder / f"{name}-together.pem")
        request, extensions = self.folder / f"{name}.csr", self.folder / f"{name}.ext"
        self._request("-keyout", pair.key, "-out", request, "-subj", f"/CN={name}")
        extensions.write_text(f"subjectAltName={names}\nauthorityKeyIdentifier=keyid\nextendedKeyUsage=serverAuth,clientAuth\n")
        by = ["-CA", self.authority, "-CAkey", self.folder / "authority.key", "-CAcreateserial", "-extfile", extensions]
        run(self._openssl, "x509", "-req", "-in", request, "-days", DAYS, "-out", pair.certificate, *by)
        pair.together.write_text(pair.key.read_text() + pair.certificate.read_text())
        return pair

    def _request(self, *words: object) -> None:
        kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        run(self._openssl, "req", *kind, *words)
