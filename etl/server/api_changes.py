"""Endpoints that change pipelines."""

from __future__ import annotations

import re
from functools import partial
from http import HTTPStatus
from typing import Literal

from etl.config.problems import ConfigError
from etl.server.api_reading import PIPELINE
from etl.server.documents import CheckDocument, StatusDocument
from etl.server.endpoints import Call, Endpoint, Parameter
from etl.server.jobs_folder import Language
from etl.server.names import DEFAULT_NAMESPACE, PipelineName
from etl.server.records import Desired
from etl.server.requests import ApiError
from etl.server.secret_values import MASK
from etl.server.views import problems_of, status_of

_MASKED = re.compile(rb"([\"'])" + re.escape(MASK).encode() + rb"\1")
"""A masked secret in a text, in YAML or SQL; without quotes it would be an alias of YAML, which is not defined."""

_LANGUAGE = Parameter("language", "The language of the file.", default="yaml", choices=("yaml", "sql"))


def _put(call: Call) -> StatusDocument:
    _check_text(call.body)
    job = call.server.deploy(call.pipeline, call.body, _language(call))
    return status_of(call.server, job)


def _language(call: Call) -> Language:
    return "sql" if call.values["language"] == "sql" else "yaml"


def _check_text(body: bytes) -> None:
    """Refuse a text in which the server has masked secrets: deployed, it would lose them."""
    if _MASKED.search(body):
        message = f"the text has masked secrets ({MASK}): write ${{NAME}} there, and set NAME in the environment of the server"
        raise ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, "masked-secret", message)


def _validate(call: Call) -> CheckDocument:
    name = PipelineName.parse(call.values["name"] or f"{DEFAULT_NAMESPACE}/pipeline")
    try:
        prepared = call.server.validate(name, call.body, _language(call))
    except ConfigError as error:
        return CheckDocument(problems=problems_of(error.problems))
    return CheckDocument(problems=problems_of(prepared.notes))


def _want(desired: Desired, restart: bool, call: Call) -> StatusDocument:
    return status_of(call.server, call.server.want(call.pipeline, desired, restart))


def _remove(call: Call) -> None:
    call.server.remove(call.pipeline)


def _rollback(call: Call) -> StatusDocument:
    return status_of(call.server, call.server.rollback(call.pipeline, call.values["to"]))


def _change(verb: Literal["start", "stop", "pause", "restart"], summary: str, desired: Desired) -> Endpoint:
    handle = partial(_want, desired, verb == "restart")
    return Endpoint("POST", f"{PIPELINE}/{verb}", summary, handle, StatusDocument)


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        "PUT",
        PIPELINE,
        "Check a file and run it in place of the one before, which goes on if the file is refused.",
        _put,
        StatusDocument,
        (_LANGUAGE,),
        takes_file=True,
    ),
    Endpoint("DELETE", PIPELINE, "Stop a pipeline and remove its file; state and versions stay.", _remove, None),
    _change("start", "Start a pipeline, also one that has failed or ended.", "running"),
    _change("stop", "Stop a pipeline after its micro-batch.", "stopped"),
    _change("pause", "Stop reading, and go on receiving: what comes in waits on disk.", "paused"),
    _change("restart", "Stop a pipeline after its micro-batch, and start it again.", "running"),
    Endpoint(
        "POST",
        f"{PIPELINE}/rollback",
        "Run an earlier version again, as a new version.",
        _rollback,
        StatusDocument,
        (Parameter("to", "The number of the version; by default the one before.", "integer", minimum=1),),
    ),
    Endpoint(
        "POST",
        "/api/validate",
        "Check a file as a deploy does, and change nothing.",
        _validate,
        CheckDocument,
        (_LANGUAGE, Parameter("name", "The pipeline that it is to be, as namespace/name.")),
        takes_file=True,
    ),
)
