"""A REST catalog whose requests have a time limit: PyIceberg waits for ever for a silent server."""

from __future__ import annotations

from typing import Any

from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.rest.auth import AuthManager
from requests import PreparedRequest, Response, Session
from requests.adapters import HTTPAdapter

TIMEOUT_SECONDS = (10.0, 60.0)
"""Time to connect, and time without a byte of the response: a commit of a large table takes a catalog some seconds."""


class TimeoutAdapter(HTTPAdapter):
    """Sends requests with `TIMEOUT_SECONDS`."""

    def send(
        self,
        request: PreparedRequest,
        stream: bool = False,
        timeout: Any = None,
        verify: Any = True,
        cert: Any = None,
        proxies: Any = None,
    ) -> Response:
        """Send a request. Raises requests.Timeout, an OSError."""
        return super().send(request, stream, timeout or TIMEOUT_SECONDS, verify, cert, proxies)


class RestCatalogWithTimeout(RestCatalog):
    """PyIceberg's catalog with `TimeoutAdapter`, also for the request for a token. With SigV4 requests have no time limit."""

    def _create_session(self) -> Session:
        session = super()._create_session()
        return session if "SigV4" in type(session.get_adapter(self.uri)).__name__ else _limited(session)

    def _create_legacy_oauth2_auth_manager(self, session: Session) -> AuthManager:
        return super()._create_legacy_oauth2_auth_manager(_limited(session))


def _limited(session: Session) -> Session:
    for scheme in ("https://", "http://"):
        session.mount(scheme, TimeoutAdapter())
    return session
