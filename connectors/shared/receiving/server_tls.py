"""TLS for incoming connections: the server's certificate, and which client certificates are accepted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field

from etl.api import ComponentError

if TYPE_CHECKING:
    import ssl


class ServerTls(BaseModel):
    """Certificate of the server, and requirements for those of clients. TLS 1.2 or newer."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    certificate: str = Field(
        description="PEM file with the server's certificate and its chain.",
        min_length=1,
        examples=["/etc/sluice/server.pem"],
    )
    key: str | None = Field(
        default=None, description="PEM file with its private key, without a password; default: the certificate's file."
    )
    client_authority: str | None = Field(default=None, description="PEM file with the certificate authorities of clients.")
    client_certificates: Literal["required", "optional"] = Field(
        default="required", description="Whether clients must present a certificate, if client_authority is set."
    )

    def context(self, owner: str) -> ssl.SSLContext:
        """Return a context for `SSLContext.wrap_socket`; ``owner`` is the type of the source, for errors.

        Raises ComponentError if a file is missing or wrong.
        """
        import ssl

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        file = self.certificate
        try:
            context.load_cert_chain(self.certificate, self.key, password=_no_password)
            if self.client_authority is not None:
                file = self.client_authority
                context.load_verify_locations(file)
                context.verify_mode = ssl.CERT_REQUIRED if self.client_certificates == "required" else ssl.CERT_OPTIONAL
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ComponentError(f"{owner}: tls cannot use {file} (key {self.key or 'in it'}): {reason}") from error
        return context


def _no_password() -> str:
    raise ValueError("the private key is protected by a password")
