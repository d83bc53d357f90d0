"""The HTTP API over the pipelines of a server, as a Starlette application."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.applications import Starlette
from starlette.routing import BaseRoute

from etl.server.access import ANYONE, Access, Guard
from etl.server.api_routes import api_routes
from etl.server.boards.shared_answers import SharedAnswers
from etl.server.documents import masked
from etl.server.events import Events
from etl.server.pipeline_server import PipelineServer
from etl.server.requests import error_handlers
from etl.server.views import status_of


def create_app(server: PipelineServer, access: Access = ANYONE, pages: Sequence[BaseRoute] = ()) -> Starlette:
    """The application: the API under ``/api``, ``/metrics``, ``/health`` and ``/ready``, and routes of ``pages``.

    ``access`` decides who may do what, for the pages as well. Handlers find ``server``, ``events``, ``access``, ``answers`` and
    ``mask``, which removes secrets from a text, in ``request.app.state``.
    """
    mask = server.secrets.mask
    events = Events(
        lambda: {str(job.name): masked(status_of(server, job), mask) for job in server.jobs()},
        lambda: {file: mask(reason) for file, reason in server.refused_files.items()},
    )
    server.on_change = lambda _: events.changed()
    app = Starlette(routes=[*api_routes(), *pages], exception_handlers=error_handlers())
    app.state.server, app.state.events, app.state.access, app.state.mask = server, events, access, mask
    app.state.answers = SharedAnswers()
    app.add_middleware(Guard, access=access)
    return app
