"""Endpoints that read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from etl.api import EtlError, cut
from etl.running.message_log import read_messages
from etl.server import documents as api
from etl.server.boards.threshold_board import MAX_GROUPS, near_rows
from etl.server.endpoints import Call, Endpoint, Parameter
from etl.server.records import format_time
from etl.server.views import graph_of, pipeline_of, state_of, status_of

if TYPE_CHECKING:
    from etl.running.thresholds import NearGroups

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
    number = call.values["version"] or (job.version.number if job.version else None)
    if number is None:
        raise EtlError(f"no version of {call.pipeline} was accepted yet")
    version, text = call.server.read_version(call.pipeline, number)
    return api.FileDocument(number=number, language=version.language, text=text)


def _logs(call: Call) -> list[Any]:
    job = call.server.job(call.pipeline)
    path = call.server.engine.state(str(job.name)).messages
    return [api.MessageDocument(**one) for one in read_messages(path, call.values["limit"], call.values["after"])]


def _state(call: Call) -> list[api.StepStateDocument]:
    return list(state_of(call.server.engine.state(str(call.server.job(call.pipeline).name))))


def _thresholds(call: Call) -> list[api.ThresholdDocument]:
    job = call.server.job(call.pipeline)
    if job.pipeline is None:
        return []
    found = call.server.thresholds.look(job.pipeline, call.server.engine.state(str(job.name)))
    return [_threshold(one, call) for one in found]


MAX_CHARACTERS = 200
"""Characters of a value of a group that are shown."""


def _threshold(found: NearGroups, call: Call) -> api.ThresholdDocument:
    """A condition with its nearest groups. Texts are masked before they are cut, which could split a secret."""
    mask = call.server.secrets.mask
    nearest = [
        api.NearGroupDocument(share=share, values=api.masked(values, lambda text: cut(mask(text), MAX_CHARACTERS)))
        for share, values in near_rows(found, call.values["limit"])
    ]
    condition, names = found.condition, ("step", "query", "batch", "groups", "met", "complete", "failure")
    return api.ThresholdDocument(
        option=condition.option,
        condition=condition.text,
        explanation=condition.explanation,
        line=condition.line,
        nearest=nearest,
        **{name: getattr(found, name) for name in names},
    )


def _samples(call: Call) -> api.SamplesDocument:
    job = call.server.job(call.pipeline)
    if job.pipeline is None:
        raise EtlError(f"{call.pipeline} does not run")
    if job.status in _WITHOUT_EVENTS:
        raise EtlError(f"{call.pipeline} is {job.status}: no events pass; `etl start {call.pipeline}` starts it")
    state, values = call.server.engine.state(str(job.name)), call.values
    requested = values["stream"] or "", values["where"], values["limit"], values["after"]
    fields, events = call.server.samples.look(job.pipeline, state, *requested)
    return api.SamplesDocument(fields=fields, events=[api.SampleDocument(id=id_, event=event) for id_, event in events])


_WITHOUT_EVENTS = frozenset({"stopped", "ended", "failed", "refused"})
"""Statuses in which no events come, and none will come by themselves."""

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint("GET", "/api/pipelines", "List all pipelines.", _list, api.ListDocument, is_shared=True),
    Endpoint("GET", PIPELINE, "A pipeline with its counters.", _pipeline, api.PipelineDocument, is_shared=True),
    Endpoint(
        "GET",
        f"{PIPELINE}/graph",
        "A pipeline as a graph, with the numbers of its nodes.",
        _graph,
        api.GraphDocument,
        is_shared=True,
    ),
    Endpoint(
        "GET",
        f"{PIPELINE}/history",
        "Sums of the last ten minutes, one sample a second.",
        _history,
        api.HistoryDocument,
        is_shared=True,
    ),
    Endpoint("GET", f"{PIPELINE}/state", "What steps with state remember.", _state, list[api.StepStateDocument]),
    Endpoint(
        "GET",
        f"{PIPELINE}/thresholds",
        "Groups that are nearest to the conditions of steps with state, without meeting them.",
        _thresholds,
        list[api.ThresholdDocument],
        (Parameter("limit", "Most groups of a condition.", "integer", 20, 1, MAX_GROUPS),),
        is_shared=True,
    ),
    Endpoint(
        "GET",
        f"{PIPELINE}/versions",
        "The accepted versions, oldest first.",
        _versions,
        list[api.VersionDocument],
        is_shared=True,
    ),
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
        is_shared=True,
    ),
    Endpoint(
        "GET",
        f"{PIPELINE}/samples",
        "Samples of the events at a source, stream or sink; the first request asks for them, further ones get them.",
        _samples,
        api.SamplesDocument,
        (
            Parameter("stream", "The source, stream or sink."),
            Parameter("where", "Only events for which this expression is true."),
            Parameter("limit", "Most events.", "integer", 100, 1, 500),
            Parameter("after", "Only events with a greater id.", "integer", 0),
        ),
        is_shared=True,
    ),
)
