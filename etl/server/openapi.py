"""The OpenAPI document of the API, made from its endpoints and models."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from http import HTTPStatus
from importlib.metadata import version
from typing import Any, get_origin

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from etl.server.documents import ErrorDocument
from etl.server.endpoints import Endpoint, Parameter, models
from etl.server.names import NAME_PATTERN

_REF = "#/components/schemas/{model}"
_FAILURES = {
    HTTPStatus.BAD_REQUEST: "A name or parameter is not valid.",
    HTTPStatus.UNAUTHORIZED: "The token is missing or wrong.",
    HTTPStatus.FORBIDDEN: "The token only reads, or the request comes from another site.",
    HTTPStatus.NOT_FOUND: "There is no such pipeline.",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "The body is too large.",
    HTTPStatus.UNPROCESSABLE_ENTITY: "It is refused, for the reason in the answer.",
}


def openapi(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """The document, OpenAPI 3.1."""
    used = {model for endpoint in endpoints for model in models(endpoint.answer)} | {ErrorDocument}
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Sluice",
            "version": version("sluice-etl"),
            "description": "The pipelines of a server. `/api/events` is a stream of server-sent events: `pipeline` with a "
            "StatusDocument when one has changed, `removed` with its name, `refused_files` with the field of that name in "
            "ListDocument.",
        },
        "paths": paths,
        "components": {
            "schemas": _schemas(used),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}, {}],
    }


def _schemas(used: Iterable[type[BaseModel]]) -> dict[str, Any]:
    ordered = sorted(used, key=lambda model: model.__name__)
    _, found = models_json_schema([(model, "serialization") for model in ordered], ref_template=_REF)
    schemas: dict[str, Any] = found["$defs"]
    return schemas


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    in_path = [_path_parameter(name) for name in re.findall(r"{(\w+)}", endpoint.path)]
    operation: dict[str, Any] = {
        "operationId": _operation_id(endpoint),
        "summary": endpoint.summary,
        "parameters": [*in_path, *map(_query_parameter, endpoint.parameters)],
        "responses": {str(int(status)): response for status, response in _responses(endpoint)},
    }
    if endpoint.takes_file:
        content = {kind: {"schema": {"type": "string"}} for kind in ("application/yaml", "application/sql", "text/plain")}
        operation["requestBody"] = {"required": True, "description": "The text of a pipeline file.", "content": content}
    return operation


def _operation_id(endpoint: Endpoint) -> str:
    words = [word for word in endpoint.path.removeprefix("/api/").split("/") if not word.startswith("{")]
    return "_".join([endpoint.method.lower(), *words])


def _responses(endpoint: Endpoint) -> Iterable[tuple[int, dict[str, Any]]]:
    if endpoint.answer is None:
        yield HTTPStatus.NO_CONTENT, {"description": "It is done."}
    elif isinstance(endpoint.answer, tuple):
        content = {kind.partition(";")[0]: {"schema": {"type": "string"}} for kind in endpoint.answer}
        yield endpoint.status, {"description": "The file.", "content": content}
    else:
        (model,) = models(endpoint.answer)
        schema: dict[str, Any] = {"$ref": _REF.format(model=model.__name__)}
        schema = {"type": "array", "items": schema} if get_origin(endpoint.answer) is list else schema
        yield endpoint.status, {"description": "The answer.", "content": {"application/json": {"schema": schema}}}
    for status, description in _FAILURES.items():
        schema = {"$ref": _REF.format(model=ErrorDocument.__name__)}
        yield status, {"description": description, "content": {"application/json": {"schema": schema}}}


def _path_parameter(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string", "pattern": f"^{NAME_PATTERN}$"}}


def _query_parameter(parameter: Parameter) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": parameter.type}
    limits = {"minimum": parameter.minimum, "maximum": parameter.maximum, "default": parameter.default}
    if parameter.type == "integer" and parameter.minimum is None:
        limits["minimum"] = 0
    schema |= {key: value for key, value in limits.items() if value is not None}
    if parameter.choices:
        schema["enum"] = list(parameter.choices)
    return {"name": parameter.name, "in": "query", "description": parameter.description, "schema": schema}
