"""Encrypted connections to a server: whom we trust, and who we are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from etl.api import ComponentError, Finding

if TYPE_CHECKING:
    import ssl


class ClientTls(BaseModel):
    """How a server's certificate is checked, and the one that is shown to it. TLS 1.2 or newer. Hashable."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    authority: str | None = Field(
        default=None,
        description="PEM file with the authorities that the server's certificate may come from; none means the system's.",
        min_length=1,
        examples=["/etc/sluice/authority.pem"],
    )
    certificate: str | None = Field(
        default=None,
        description="PEM file with a certificate to show to the server, and those that lead to its authority.",
        min_length=1,
        examples=["/etc/sluice/client.pem"],
    )
    key: str | None = Field(
        default=None, description="PEM file with its private key; none means the certificate's file.", min_length=1
    )
    key_password: SecretStr | None = Field(
        default=None, description="What unlocks the private key.", examples=["${KEY_PASSWORD}"]
    )
    verify: Literal["full", "authority", "none"] = Field(
        default="full",
        description="What is asked of the server's certificate: full is a known authority and the server's name, authority any "
        "name, none nothing at all, which lets anybody listen who can stand in between.",
    )

    def context(self) -> ssl.SSLContext:
        """For a client's socket. Raises ComponentError that names the file when one is missing or wrong."""
        import ssl

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = self.verify == "full"
        context.verify_mode = ssl.CERT_NONE if self.verify == "none" else ssl.CERT_REQUIRED
        self._trust(context)
        self._show(context)
        return context

    def check(self, *path: str) -> Iterable[Finding]:
        """Options that need another one; ``path`` leads from the component to this mapping."""
        for name in ("key", "key_password"):
            if getattr(self, name) is not None and self.certificate is None:
                yield Finding("no-certificate", f"{name} is given, and no certificate", (*path, name), "add certificate: …")
        if self.authority is not None and self.verify == "none":
            yield Finding(
                "unused-option", "verify: none asks no authority", (*path, "authority"), "leave verify out", severity="warning"
            )

    def _trust(self, context: ssl.SSLContext) -> None:
        if self.authority is None:
            context.load_default_certs()
            return
        try:
            context.load_verify_locations(self.authority)
        except OSError as error:
            raise ComponentError(f"tls: cannot use authority {self.authority}: {_reason(error)}") from error

    def _show(self, context: ssl.SSLContext) -> None:
        if self.certificate is None:
            return
        try:
            context.load_cert_chain(self.certificate, self.key, password=self._password)
        except (OSError, ValueError) as error:
            place = f"certificate {self.certificate} (key {self.key or 'in it'})"
            raise ComponentError(f"tls: cannot use {place}: {_reason(error)}") from error

    def _password(self) -> str:
        """Asked for only when the key is locked; without it the library would ask the terminal."""
        if self.key_password is None:
            raise ValueError("the private key is locked by a password; give key_password")
        return self.key_password.get_secret_value()


def _reason(error: Exception) -> str:
    """The system's words for a missing file, and those of OpenSSL, which has none of its own, for a wrong one."""
    import ssl

    if isinstance(error, ssl.SSLError):
        return "it is no PEM file of that kind, does not fit its key, or the password is wrong" + (
            f" ({error.reason})" if error.reason else ""
        )
    return getattr(error, "strerror", None) or str(error)
