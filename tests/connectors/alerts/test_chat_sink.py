"""The chat sink, against a web server that answers as the services document it."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from fake_http import FakeServer, Reply

from connectors.alerts.committer import AlertCommitter
from connectors.chat.services import SERVICES
from connectors.chat.sink import ChatSink
from etl.api import OFFSET, BatchId, ComponentError, RetryAfterError, Staged, Task

SECRET = "/services/T0HUNTER2/B0HUNTER2/xoHUNTER2secret"
HOSTILE = [
    "@channel @here @everyone @all",
    "<!channel> <!here> <@U123> <@&42> <#C1>",
    "<https://evil.example|your bank> [your bank](https://evil.example) www.evil.example ftp://evil.example",
    "*bold* _it_ ~strike~ `code` ```block``` ||spoiler|| :fire: #tag ~town-square",
    'quote " backslash \\ brace {message} \\* \\@everyone',
    "line\r\n> quote\n# heading\n```\x00\x1b[31m\u202eabc\u200b",
    "> quote",
    "- item",
    "1. item",
    "&lt;!channel&gt; &amp;",
]
MARKUP = [service for service in SERVICES if service != "generic"]


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with (server := FakeServer()).running():
        yield server


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def create_sink(url: str, **options: Any) -> ChatSink:
    return ChatSink.model_validate({"type": "chat", "service": "slack", "url": url + SECRET, "text": "{m}", **options})


def stage(sink: ChatSink, *texts: str | None, **columns: Any) -> Staged:
    batch = pa.RecordBatch.from_pydict({"m": pa.array(texts, pa.string()), **columns, OFFSET: range(len(texts))})
    writer = sink.open(Task("p", "out", "split", "/nowhere", batch.schema))
    writer.write(batch.slice(0, 1))
    writer.write(batch.slice(1))
    staged = writer.close()
    assert staged is not None
    return pickle.loads(pickle.dumps(staged))


def committer(sink: ChatSink, folder: Path, clock: Clock | None = None) -> AlertCommitter:
    made = sink.committer(str(folder))
    made.clock = clock or Clock()
    return made


def sent(server: FakeServer) -> list[Any]:
    return [json.loads(request.body) for request in server.requests]


def texts(server: FakeServer) -> list[str]:
    return [text_of(document) for document in sent(server)]


def text_of(document: Any) -> str:
    if "attachments" in document:
        return str(document["attachments"][0]["content"]["body"][0]["text"])
    return str(document.get("text", document.get("content")))


def send(server: FakeServer, folder: Path, *events: str | None, **options: Any) -> str:
    sink = create_sink(server.url, **options)
    committer(sink, folder).commit(BatchId("q", 0), [stage(sink, *events)])
    return texts(server)[-1]


@pytest.mark.parametrize("service", MARKUP)
@pytest.mark.parametrize("value", HOSTILE)
def test_values_neither_mention_nor_link_nor_format(server: FakeServer, tmp_path: Path, service: str, value: str) -> None:
    text = send(server, tmp_path, value, service=service, text="*{m}*")

    inner = text[1:-1]
    assert not re.search(r"@[A-Za-z0-9&!]|://|www\.|:fire:|[\x00-\x1f\u202e]", inner)
    if service == "slack":
        assert not re.search(r"[<>]|&(?!amp;|lt;|gt;)|(?<!\u200b)[*_~`]|^&gt;", inner)
    else:
        assert not re.search(r"(?<!\\)(\\\\)*[*_~`|\[\]<>#]", inner)
        assert not re.search(r"[~#<]\w|^[-+]|^\d+\.", inner)


@pytest.mark.parametrize("template", ["@{m}", "<{m}>", "<!{m}>", "http:{m}", "\\{m}", "#{m}", "{e}@{m}", "{colon}{m}"])
@pytest.mark.parametrize("service", MARKUP)
def test_the_templates_text_and_a_value_do_not_act_together(
    server: FakeServer, tmp_path: Path, service: str, template: str
) -> None:
    sink = create_sink(server.url, service=service, text=template)
    staged = stage(sink, "channel", "!here", "//evil.example", "*", e=[""] * 4, colon=[":"] * 4)

    committer(sink, tmp_path).commit(BatchId("q", 0), [staged])

    text = texts(server)[-1]
    assert not re.search(r"@[a-z]|<!?[a-z]|://|#[a-z]", text)
    assert "\\\\*" not in text


def test_each_service_gets_its_payload(server: FakeServer, tmp_path: Path) -> None:
    for service in SERVICES:
        send(server, tmp_path / service if (tmp_path / service).mkdir() is None else tmp_path, 'a"b', None, service=service)

    slack, teams, discord, mattermost, generic = sent(server)
    assert slack == {"text": 'a"b\n-', "parse": "none", "link_names": False, "unfurl_links": False, "unfurl_media": False}
    assert teams["attachments"][0]["content"]["body"] == [{"type": "TextBlock", "text": 'a"b\n\n' + "\u200b-", "wrap": True}] or (
        teams["attachments"][0]["content"]["body"][0]["text"].startswith('a"b\n\n')
    )
    assert (discord["allowed_mentions"], discord["flags"]) == ({"parse": []}, 4)
    assert mattermost["text"].startswith('a"b\n')
    assert generic == {"text": 'a"b\n-', "events": 2, "suppressed": 0}
    assert {request.path for request in server.requests} == {SECRET}
    assert server.requests[-1].headers["idempotency-key"]


def test_only_mentions_of_the_template_are_allowed_in_discord(server: FakeServer, tmp_path: Path) -> None:
    send(server, tmp_path, "@everyone <@&7>", service="discord", text="@here {m}")

    assert sent(server)[0]["allowed_mentions"] == {"parse": ["everyone"]}


@pytest.mark.parametrize("service", SERVICES)
def test_a_message_is_as_long_as_the_service_accepts(server: FakeServer, tmp_path: Path, service: str) -> None:
    longest = SERVICES[service].max_length  # type: ignore[index]

    text = send(server, tmp_path, "😀" * longest, "short", service=service, max_length=longest)

    assert longest - 100 < len(text.encode("utf-16-le")) // 2 <= longest
    assert "…" in text
    assert text.endswith("and 1 more event")
    if service == "teams":
        assert len(server.requests[0].body) <= 28 * 1024


def test_a_digest_has_the_first_events_of_all_splits_and_counts_the_others(server: FakeServer, tmp_path: Path) -> None:
    sink = create_sink(server.url, max_events=3)
    splits = [stage(sink, "a", "b"), stage(sink, *(str(n) for n in range(2000)))]

    committer(sink, tmp_path).commit(BatchId("q", 0), splits)

    assert texts(server) == ["a\nb\n0\n… and 1,999 more events"]
    assert len(splits[1].detail) == 3


def test_events_beyond_the_limit_are_counted_in_the_next_message_across_restarts(server: FakeServer, tmp_path: Path) -> None:
    sink = create_sink(server.url, digest=False, throttle={"limit": 3, "every": "1h"})
    clock = Clock()

    committer(sink, tmp_path, clock).commit(BatchId("q", 0), [stage(sink, "a", "b"), stage(sink, *"cdefgh")])
    committer(sink, tmp_path, clock).commit(BatchId("q", 1), [stage(sink, "i", "j")])
    clock.now = 3600.0
    committer(sink, tmp_path, clock).commit(BatchId("q", 2), [stage(sink, "k", "l")])

    assert texts(server) == ["a", "b", "c", "k\n7 events before this message were suppressed.", "l"]


def test_the_limit_counts_digests(server: FakeServer, tmp_path: Path) -> None:
    sink = create_sink(server.url, throttle={"limit": 1})
    clock = Clock()
    one = committer(sink, tmp_path, clock)

    for number, now in enumerate([0, 1, 3600]):
        clock.now = now
        one.commit(BatchId("q", number), [stage(sink, "a", "b")])

    assert texts(server) == ["a\nb", "a\nb\n2 events before this message were suppressed."]


def test_a_micro_batch_that_is_committed_again_sends_only_what_was_not_sent(server: FakeServer, tmp_path: Path) -> None:
    sink = create_sink(server.url, digest=False)
    staged = [stage(sink, "a", "b", "b", "c")]
    server.replies = [Reply(), Reply(), Reply(429, b"slow down", {"Retry-After": "7"})]
    first = committer(sink, tmp_path)

    with pytest.raises(RetryAfterError, match="answers 429: slow down") as raised:
        first.commit(BatchId("q", 0), staged)
    second = committer(sink, tmp_path)
    second.commit(BatchId("q", 0), staged[::-1])
    second.commit(BatchId("q", 0), staged)
    committer(sink, tmp_path).commit(BatchId("q", 0), staged)

    assert raised.value.seconds == 7
    assert texts(server) == ["a", "b", "b", "b", "c"]


@pytest.mark.parametrize(
    "reply",
    [
        Reply(404, f"no_service at {SECRET}".encode()),
        Reply(403, b"invalid token xoHUNTER2secret"),
        Reply(307, headers={"Location": f"https://elsewhere.example{SECRET}"}),
        Reply(400, b"invalid_payload T0HUNTER2"),
    ],
)
def test_a_refused_message_ends_the_run_without_the_secret(server: FakeServer, tmp_path: Path, reply: Reply) -> None:
    server.replies = [reply]
    sink = create_sink(server.url)
    one = committer(sink, tmp_path)

    with pytest.raises(ComponentError, match=f"answers {reply.status}") as raised:
        one.commit(BatchId("q", 0), [stage(sink, "a")])

    assert "HUNTER2" not in f"{raised.value} {one!r} {sink!r} {sink.model_dump_json()}"
    assert "nothing is lost" in str(raised.value)


def test_a_dead_server_is_an_oserror_without_the_secret(tmp_path: Path) -> None:
    with FakeServer().running() as server:
        sink = create_sink(server.url)

    with pytest.raises(OSError, match="refused") as raised:
        committer(sink, tmp_path).commit(BatchId("q", 0), [stage(sink, "a")])

    assert "HUNTER2" not in str(raised.value)
    with pytest.raises(OSError, match="refused"):
        list(sink.probe(pa.schema([])))


def test_a_damaged_ledger_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "messages.json").write_text('{"batches": 7}')

    with pytest.raises(ComponentError, match=r"messages\.json is not a valid ledger .* move it away"):
        create_sink("http://127.0.0.1:1").committer(str(tmp_path))


def test_the_probe_sends_no_message(server: FakeServer) -> None:
    server.replies = [Reply(405), Reply(403, SECRET.encode())]
    sink = create_sink(server.url)

    assert list(sink.probe(pa.schema([]))) == []
    (finding,) = sink.probe(pa.schema([]))

    assert {request.method for request in server.requests} == {"OPTIONS"}
    assert (finding.code, finding.path) == ("not-ready", ("url",))
    assert "HUNTER2" not in finding.message


@pytest.mark.parametrize(
    ("options", "code", "path"),
    [
        ({"url": "hooks.slack.com/x"}, "invalid-value", ("url",)),
        ({"url": "https://a:99999/x"}, "bad-port", ("url",)),
        ({"url": "https://u:p@a/x"}, "url-with-password", ("url",)),
        ({"text": "{mm}"}, "unknown-field", ("text",)),
        ({"service": "discord", "max_length": 2001}, "maximum", ("max_length",)),
        ({"digest": False, "max_events": 5}, "unused-option", ("max_events",)),
    ],
)
def test_what_lint_finds(options: dict[str, Any], code: str, path: tuple[str, ...]) -> None:
    sink = ChatSink.model_validate({"type": "chat", "service": "slack", "url": "https://a.example/x", "text": "{m}", **options})

    (finding,) = sink.check(pa.schema({"m": pa.string()}))

    assert (finding.code, finding.path) == (code, path)
