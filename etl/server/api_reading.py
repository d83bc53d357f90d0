"""Endpoints that read."""

from __future__ import annotations

from typing import Any

from etl.running.message_log import read_messages
from etl.server import documents as api
from etl.server.endpoints import Call, Endpoint, Parameter
from etl.server.records import format_time
from etl.server.views import graph_of, pipeline_of, status_of

PIPELINE = "/api/pipelines/{namespace}/{name}"


def _list(call: Call) -> api.ListDocument:
    statuses = [status_of(call.server, job) for job in call.server.jobs()]
    return api.ListDocument(pipelines=statuses, refused_files=dict(call.server.refused_files))


def _pipeline(call: Call) -> api.PipelineDocument:
    return pipeline_of(call.server, call.server.job(call.pipeline))


def _graph(call: Call) -> api.GraphDocument:
    return graph_of(call.server.job(call.pipeline))


def _history(call: Call) -> api.HistoryDocument:
    call.server.job(call.pipeline)
    return api.HistoryDocument(**call.server.rates(call.pipeline).history())


def _versions(call: Call) -> list[api.VersionDocument]:
    running = call.server.job(call.pipeline).running_version
    return [
        api.VersionDocument(number=one.number, time=format_time(one.time), language=one.language, running=one.number == running)
        for one in call.server.versions.list(call.pipeline)
    ]


def _file(call: Call) -> api.FileDocument:
    job = call.server.job(call.pipeline)
    number = call.values["version"] or (job.version.number if job.version else 0)
    version = call.server.versions.find(call.pipeline, number)
    text = version.path.read_bytes().decode("utf-8", "replace")
    return api.FileDocument(number=number, language=version.language, text=text)


def _logs(call: Call) -> list[Any]:
    job = call.server.job(call.pipeline)
    path = call.server.engine.state(str(job.name)).messages
    return [api.MessageDocument(**one) for one in read_messages(path, call.values["limit"], call.values["after"])]


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint("GET", "/api/pipelines", "List all pipelines.", _list, api.ListDocument),
    Endpoint("GET", PIPELINE, "A pipeline with its counters.", _pipeline, api.PipelineDocument),
    Endpoint("GET", f"{PIPELINE}/graph", "A pipeline as a graph, with the numbers of its nodes.", _graph, api.GraphDocument),
    Endpoint("GET", f"{PIPELINE}/history", "Sums of the last ten minutes, one sample a second.", _history, api.HistoryDocument),
    Endpoint("GET", f"{PIPELINE}/versions", "The accepted versions, oldest first.", _versions, list[api.VersionDocument]),
    Endpoint(
        "GET",
        f"{PIPELINE}/file",
        "The text of a version, with masked secrets.",
        _file,
        api.FileDocument,
        (Parameter("version", "Its number; by default the accepted one.", "integer", minimum=1),),
    ),
    Endpoint(
        "GET",
        f"{PIPELINE}/logs",
        "The last messages, oldest first.",
        _logs,
        list[api.MessageDocument],
        (
            Parameter("limit", "Most messages.", "integer", 100, 1, 5000),
            Parameter("after", "Only messages with a greater id.", "integer", 0),
        ),
    ),
)
