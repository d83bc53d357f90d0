"""The studio without a server of pipelines (``etl studio``): the page, its API, and files saved into one folder."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from etl.server.access import Access, Guard
from etl.server.requests import error_handlers
from etl.server.studio.page import page_routes
from etl.server.studio.routes import PREFIX, answer_json, studio_routes
from etl.server.studio.worker_process import StudioError, WorkerProcess
from etl.server.tokens import OneToken

FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,100}\.ya?ml", re.ASCII)
"""Names of files that the page may write: no folders, nothing hidden."""


class SaveQuery(BaseModel):
    """Files to write into the folder, by name."""

    model_config = ConfigDict(extra="forbid")

    files: dict[str, str] = Field(min_length=1, max_length=2)
    replace: bool = False


def standalone_app(folder: Path, file: Path | None, token: str) -> Starlette:
    """The application; ``file`` is what the page opens with."""
    worker = WorkerProcess()

    async def about(_: Request) -> Response:
        found = None if file is None else await run_in_threadpool(worker.call, "open", file=file)
        return JSONResponse({"server": False, "folder": str(folder), "file": found})

    async def save(request: Request) -> Response:
        return await answer_json(request, SaveQuery, lambda query: save_files(folder, query))

    def lifespan(_: Starlette) -> AbstractAsyncContextManager[None]:
        return _warm(worker)

    own = [Route(PREFIX, about), Route(f"{PREFIX}/save", save, methods=["POST"])]
    return Starlette(
        routes=[*own, *studio_routes(worker), *page_routes()],
        middleware=[Middleware(Guard, access=Access(OneToken(token)))],
        exception_handlers=error_handlers(),
        lifespan=lifespan,
    )


@asynccontextmanager
async def _warm(worker: WorkerProcess) -> AsyncIterator[None]:
    """The worker process, which imports the engine before somebody waits for it, until the server ends."""
    warming = asyncio.create_task(run_in_threadpool(worker.call, "warm"))
    try:
        yield
    finally:
        warming.cancel()
        worker.close()


def server_pages(worker: WorkerProcess) -> list[BaseRoute]:
    """The page and the studio of a server of pipelines, which deploys what the studio makes."""

    async def about(_: Request) -> Response:
        return JSONResponse({"server": True, "folder": "", "file": None})

    return [Route(PREFIX, about), *studio_routes(worker), *page_routes()]


def save_files(folder: Path, query: SaveQuery) -> dict[str, list[str]]:
    """Write all of the files, or none. Raises StudioError for an invalid name, and for a file that exists."""
    for name in query.files:
        if not FILE_NAME.fullmatch(name):
            raise StudioError(f"{name!r} is not a file name that ends in .yaml; use letters, digits, '-', '_' and '.'")
        if (folder / name).is_symlink() or ((folder / name).exists() and not query.replace):
            raise StudioError(f"{name} exists already in {folder}")
    for name, text in query.files.items():
        (folder / name).write_text(text, "utf-8", "replace")
    return {"written": [str(folder / name) for name in query.files]}
