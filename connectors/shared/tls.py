"""TLS for connections to servers: verification of the server, and the client's certificate."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from etl.api import ComponentError, Finding

if TYPE_CHECKING:
    import ssl


class ClientTls(BaseModel):
    """How the server's certificate is verified, and the client certificate to present. TLS 1.2 or newer. Hashable."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    authority: str | None = Field(
        default=None,
        description="PEM file with the trusted certificate authorities; default: the system's.",
        min_length=1,
        examples=["/etc/sluice/authority.pem"],
    )
    certificate: str | None = Field(
        default=None,
        description="PEM file with the client certificate and its chain.",
        min_length=1,
        examples=["/etc/sluice/client.pem"],
    )
    key: str | None = Field(
        default=None, description="PEM file with its private key; default: the certificate's file.", min_length=1
    )
    key_password: SecretStr | None = Field(default=None, description="Password of the private key.", examples=["${KEY_PASSWORD}"])
    verify: Literal["full", "authority", "none"] = Field(
        default="full",
        description="How the server's certificate is verified: full checks the authority and the server's name, authority only "
        "the authority, none checks nothing, which allows man-in-the-middle attacks.",
    )

    def context(self) -> ssl.SSLContext:
        """Return a context for client sockets. Raises ComponentError with the file's name if one is missing or wrong."""
        import ssl

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = self.verify == "full"
        context.verify_mode = ssl.CERT_NONE if self.verify == "none" else ssl.CERT_REQUIRED
        self._load_authority(context)
        self._load_certificate(context)
        return context

    def check(self, *path: str) -> Iterable[Finding]:
        """Yield findings for options that need another one; ``path`` is the path of this mapping in the component."""
        for name in ("key", "key_password"):
            if getattr(self, name) is not None and self.certificate is None:
                yield Finding("no-certificate", f"{name} is given without certificate", (*path, name), "add certificate: …")
        if self.authority is not None and self.verify == "none":
            yield Finding(
                "unused-option",
                "authority is not used with verify: none",
                (*path, "authority"),
                "remove verify",
                severity="warning",
            )

    def _load_authority(self, context: ssl.SSLContext) -> None:
        if self.authority is None:
            context.load_default_certs()
            return
        try:
            context.load_verify_locations(self.authority)
        except OSError as error:
            raise ComponentError(f"tls: cannot use authority {self.authority}: {_reason(error)}") from error

    def _load_certificate(self, context: ssl.SSLContext) -> None:
        if self.certificate is None:
            return
        try:
            context.load_cert_chain(self.certificate, self.key, password=self._password)
        except (OSError, ValueError) as error:
            files = f"certificate {self.certificate} (key {self.key or 'in it'})"
            raise ComponentError(f"tls: cannot use {files}: {_reason(error)}") from error

    def _password(self) -> str:
        """Called only if the key is encrypted; otherwise the library would ask on the terminal."""
        if self.key_password is None:
            raise ValueError("the private key is protected by a password; set key_password")
        return self.key_password.get_secret_value()


def _reason(error: Exception) -> str:
    """Return the system's message for a missing file, or OpenSSL's reason for an invalid one."""
    import ssl

    if isinstance(error, ssl.SSLError):
        return "it is not a PEM file of that kind, does not match its key, or the password is wrong" + (
            f" ({error.reason})" if error.reason else ""
        )
    return getattr(error, "strerror", None) or str(error)
