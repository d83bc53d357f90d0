"""Endpoints about dead letters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from etl.api import EtlError, cut
from etl.running.dead_letters.letter_export import EXPORT_FORMATS
from etl.running.dead_letters.letter_files import LetterFile, letter_files
from etl.running.dead_letters.letter_filter import LetterFilter
from etl.running.dead_letters.letter_pages import LetterCursor, letter_page
from etl.running.dead_letters.replay import history
from etl.running.dead_letters.settled_letters import SettledLetters
from etl.running.state_folders import dead_letters
from etl.server import documents as api
from etl.server.api_reading import PIPELINE
from etl.server.endpoints import Call, Download, Endpoint, Parameter
from etl.server.studio.letter_stops import letter_stop
from etl.server.views import status_of

if TYPE_CHECKING:
    from etl.config.model import Pipeline
    from etl.running.dead_letters.letter_groups import LetterGroup

LETTER_PARAMETERS = (
    Parameter("at", "Only letters of steps, sinks and sources whose name has this text; a whole name is this one alone."),
    Parameter("code", "Only letters with this code, such as grok-failed."),
    Parameter("reason", "Only letters whose reason has this text."),
    Parameter("text", "Only letters whose event has this text."),
    Parameter("since", "Only letters of this time (ISO 8601, UTC) and later."),
    Parameter("until", "Only letters before this time."),
)

MAX_CHARACTERS = 4096
"""Characters of an event among the last ones; a page of letters has all of them."""


def _groups(call: Call) -> api.DeadLettersDocument:
    job = call.server.job(call.pipeline)
    pipeline = job.pipeline
    if pipeline is None:
        return api.DeadLettersDocument(groups=[], last=[], complete=True)
    found = call.server.letters.look(pipeline, call.server.engine.state(str(job.name)), _letter_filter(call))
    groups = [_letter_group(pipeline, group) for group in found.groups]
    mask = call.server.secrets.mask
    last = [_letter({**one, "event": one["event"] and cut(mask(one["event"]), MAX_CHARACTERS)}) for one in found.last]
    return api.DeadLettersDocument(groups=groups, last=last, complete=found.complete)


def _page(call: Call) -> api.DeadLetterPageDocument:
    chosen, after = _letter_filter(call), call.values["after"]
    files, settled = _open_letters(call)
    page = letter_page(files, settled, chosen.choose, LetterCursor.decode(after) if after else None, call.values["limit"])
    return api.DeadLetterPageDocument(
        letters=[_letter(one) for one in page.letters], next=page.next.encode() if page.next else None, is_last=page.is_last
    )


def _export(call: Call) -> Download:
    form, chosen, mask = EXPORT_FORMATS[call.values["format"]], _letter_filter(call), call.server.secrets.mask_columns
    files, settled = _open_letters(call)
    batches = (mask(chosen.choose(batch)) for file in files for batch in settled.open(file))
    name = f"{call.pipeline.namespace}-{call.pipeline.name}-dead-letters.{call.values['format']}"
    return Download(form.media_type, name, form.encode(batches))


def _history(call: Call) -> list[api.DeadLetterDocument]:
    state = call.server.engine.state(str(call.server.job(call.pipeline).name))
    return [_letter(one) for one in history(state, call.values["source"] or "", call.values["offset"])]


def _open_letters(call: Call) -> tuple[list[LetterFile], SettledLetters]:
    """The files of the letters, and which of them are settled. Raises EtlError for letters that are elsewhere."""
    job = call.server.job(call.pipeline)
    if job.pipeline is None:
        raise EtlError(f"the file of {call.pipeline} is refused: nothing says where its dead letters are")
    state = call.server.engine.state(str(job.name))
    return letter_files(dead_letters(job.pipeline, state)), SettledLetters.load(state.root / "dead")


def _replay(call: Call) -> api.StatusDocument:
    return status_of(call.server, call.server.replay(call.pipeline, _letter_filter(call)))


def _drop(call: Call) -> api.StatusDocument:
    return status_of(call.server, call.server.drop(call.pipeline, _letter_filter(call)))


def _letter_filter(call: Call) -> LetterFilter:
    """The letters that a request is about. Raises EtlError for an invalid time."""
    return LetterFilter(**{one.name: call.values[one.name] for one in LETTER_PARAMETERS})


def _letter_group(pipeline: Pipeline, group: LetterGroup) -> api.DeadLetterGroupDocument:
    last = group.last.isoformat() if group.last else None
    found = letter_stop(pipeline, group.at, group.example)
    stop = None
    if found is not None:
        text, at = found
        stop = api.MatchStopDocument(text=text, at=at.column - 1, expected=at.expected, within=list(at.within))
    return api.DeadLetterGroupDocument(
        at=group.at,
        code=group.code,
        events=group.events,
        reason=group.reason,
        reasons=len(group.reasons),
        example=group.example,
        last=last,
        stop=stop,
    )


def _letter(letter: dict[str, Any]) -> api.DeadLetterDocument:
    fields = ("at", "code", "reason", "event", "source", "partition", "offset")
    return api.DeadLetterDocument(time=letter["time"].isoformat(), **{name: letter[name] for name in fields})


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        "GET",
        f"{PIPELINE}/dead",
        "Open dead letters: groups, and the last ones. Each request counts what is new since the one before.",
        _groups,
        api.DeadLettersDocument,
        LETTER_PARAMETERS,
        is_shared=True,
    ),
    Endpoint(
        "GET",
        f"{PIPELINE}/dead/letters",
        "Open dead letters page by page, oldest first. Reading a page ends after two seconds, and after 4 MiB of text: one that "
        "is not the last may have fewer letters than `limit`, or none.",
        _page,
        api.DeadLetterPageDocument,
        (
            *LETTER_PARAMETERS,
            Parameter("after", "The `next` of the page before; without it the first page."),
            Parameter("limit", "Most letters of the page.", "integer", 100, 1, 1000),
        ),
    ),
    Endpoint(
        "GET",
        f"{PIPELINE}/dead/export",
        "Open dead letters as a file, with masked secrets; they stay what they are.",
        _export,
        tuple(dict.fromkeys(one.media_type for one in EXPORT_FORMATS.values())),
        (
            *LETTER_PARAMETERS,
            Parameter(
                "format",
                "`jsonl` and `parquet` have all fields; `log` and `txt` have the text of each event alone, one a line, without "
                "events of several lines.",
                default="jsonl",
                choices=tuple(EXPORT_FORMATS),
            ),
        ),
    ),
    Endpoint(
        "GET",
        f"{PIPELINE}/dead/history",
        "Earlier rejections of a dead letter that was replayed, the first at the beginning; empty for one that was not.",
        _history,
        list[api.DeadLetterDocument],
        (
            Parameter("source", "The `source` of the letter."),
            Parameter("offset", "The `offset` of the letter.", "integer"),
        ),
    ),
    Endpoint(
        "POST",
        f"{PIPELINE}/dead/replay",
        "Stop a pipeline after its micro-batch, send dead letters through its accepted version, once each, and go on; its "
        "messages tell how many were delivered.",
        _replay,
        api.StatusDocument,
        LETTER_PARAMETERS,
    ),
    Endpoint(
        "POST",
        f"{PIPELINE}/dead/drop",
        "Stop a pipeline after its micro-batch, settle dead letters without a replay, and go on; its messages tell how many "
        "there were.",
        _drop,
        api.StatusDocument,
        LETTER_PARAMETERS,
    ),
)
