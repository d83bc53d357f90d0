"""The parser `url`: parts of URLs, parameters of queries, registered domains."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etl.api import ComponentError
from etl.columns.texts import materialize
from etl.scanner.learning import Learner, MatchArrays
from parsers.url.parser import Url
from parsers.url.public_suffixes import PublicSuffixes


def run(step: Url, *texts: str | None) -> tuple[list[dict[str, Any]], list[str]]:
    batch = pa.RecordBatch.from_pydict({step.field: pa.array(texts, pa.string())})
    events, rejects = step.open(batch.schema)(batch)
    events = materialize(events)
    assert events.schema == step.fields(batch.schema)
    assert events.num_rows + sum(reject.events.num_rows for reject in rejects) == len(texts)
    return events.to_pylist(), [reject.reasons for reject in rejects]


def parts(text: str | None, **options: Any) -> dict[str, Any] | None:
    """The parts that are there, without the text itself; None when it failed."""
    events, _ = run(Url(**options), text)
    found = [{k.removeprefix("url."): v for k, v in event.items() if v is not None and k != "url.original"} for event in events]
    return found[0] if found else None


def test_the_text_stays_as_original() -> None:
    assert run(Url(), "/x")[0][0]["url.original"] == "/x"
    (event,), _ = run(Url(field="request", target="http.url"), "/x")
    assert event["http.url.original"] == event["http.url.path"] == "/x"
    assert "request" not in event


# ── Parameters ────────────────────────────────────────────────────────────────────────────────────


def parameters(*texts: str | None, **options: Any) -> list[dict[str, Any]]:
    events, reasons = run(Url(**options), *texts)
    assert not reasons
    return [{name: value for name, value in event.items() if not name.startswith("url.")} for event in events]


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(st.lists(st.text('ab=&%+41\\"é\n', max_size=20), max_size=5))
def test_the_rest_is_what_python_finds(queries: list[str]) -> None:
    found = parameters(*(f"/?{query}" for query in queries), rest="rest")

    for query, event in zip(queries, found, strict=True):
        expected: dict[str, list[str]] = {}
        for name, value in parse_qsl(query, keep_blank_values=True):
            expected.setdefault(name, []).append(value)
        plain = {name: values[0] if len(values) == 1 else values for name, values in expected.items()}
        assert json.loads(event["rest"] or "{}") == plain
        assert event["rest"] != "{}"


# ── Registered domains ────────────────────────────────────────────────────────────────────────────

RULES = ["com", "uk", "co.uk", "*.ck", "!www.ck", "github.io", "中国"]


@pytest.mark.parametrize(
    ("domain", "registered", "sub", "suffix"),
    [
        ("www.example.com", "example.com", "www", "com"),
        ("a.b.example.co.uk", "example.co.uk", "a.b", "co.uk"),
        ("example.com.", "example.com", None, "com"),
        ("co.uk", None, None, "co.uk"),
        ("a.b.ck", "a.b.ck", None, "b.ck"),
        ("www.ck", "www.ck", None, "ck"),
        ("x.github.io", "x.github.io", None, "github.io"),
        ("host.unknown", "host.unknown", None, "unknown"),
        ("x.例.中国", "例.中国", "x", "中国"),
        ("x.example.xn--fiqs8s", "example.xn--fiqs8s", "x", "xn--fiqs8s"),
        ("localhost", None, None, "localhost"),
        ("10.0.0.1", None, None, None),
        ("[::1]", None, None, None),
        ("a..com", None, None, None),
    ],
)
def test_registered_domains(domain: str, registered: str | None, sub: str | None, suffix: str | None) -> None:
    assert PublicSuffixes(RULES).parts(domain) == (registered, sub, suffix)


def test_a_file_of_suffixes(tmp_path: Path) -> None:
    path = tmp_path / "list.dat"
    path.write_text("// comment\n\nCOM // trailing\nco.uk\n*.ck\n", "utf-8")

    (event, missing), _ = run(Url(public_suffixes=str(path)), "http://a.Shop.co.uk/", "/x")

    assert (event["url.registered_domain"], event["url.subdomain"], event["url.top_level_domain"]) == ("shop.co.uk", "a", "co.uk")
    assert missing["url.registered_domain"] is None


def test_findings(tmp_path: Path) -> None:
    schema = pa.schema([("url.original", pa.string())])

    def check_codes(**options: Any) -> list[tuple[str, tuple[str | int, ...]]]:
        return [(finding.code, finding.path) for finding in Url(**options).check(schema)]

    assert check_codes(fields={"a": "map<string,string>"}) == [("unreadable-type", ("fields", "a"))]
    assert check_codes(paths={"a": "b"}) == [("unknown-field", ("paths", "a"))]
    assert check_codes(fields={"url.path": "string"}) == [("field-conflict", ("fields",))]
    assert check_codes(rest="url.query") == [("field-conflict", ("rest",))]
    assert check_codes(rest="url") == [("field-conflict", ("fields",))]
    assert check_codes(fields={"url.original": "int"}, on_error="keep") == [
        ("field-conflict", ("fields",)),
        ("keep-conflict", ("on_error",)),
    ]
    assert check_codes(public_suffixes=str(tmp_path / "none")) == [("unreadable-file", ("public_suffixes",))]
    assert check_codes(fields={"a": "array<int>"}, rest="labels") == []
    with pytest.raises(ComponentError, match="public suffixes"):
        Url(public_suffixes=str(tmp_path / "none")).compile()


# ── Laws and data ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(st.lists(st.none() | st.text(max_size=30) | st.text("htp:/?#@[]:.a1 \\%&=é\x00\n", max_size=30), max_size=6))
def test_no_text_raises(texts: list[str | None]) -> None:
    for options in ({}, {"userinfo": "keep", "fields": {"a": "int"}, "rest": "r"}):
        run(Url(**options), *texts)


@pytest.mark.slow
@pytest.mark.parametrize("learned", [True, False])
def test_huge_texts(learned: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an automaton that knows them, too: all patterns suit RE2, which needs no time limit."""
    if not learned:
        monkeypatch.setattr(Learner, "scan", lambda self, texts: MatchArrays.unknown(len(self.names), len(texts.address)))
    assert parts("http://" + "a" * 1_000_000 + "/" + "." * 1_000_000) is not None
    assert parts("/?" + "&" * 100_000 + "a=1", fields={"a": "int"})["a"] == 1  # type: ignore[index]


@settings(max_examples=100, deadline=None)
@given(
    st.builds(
        "{}://{}{}{}{}".format,
        st.sampled_from(["http", "ftp"]),
        st.sampled_from(["h", "a.b:80", "[::1]:8"]),
        st.sampled_from(["", "/", "/a/b.c", "//"]),
        st.sampled_from(["", "?", "?a=b", "?a?b/c@d:e"]),
        st.sampled_from(["", "#f", "#?x/#"]),
    )
)
def test_urls_come_apart_as_python_takes_them(text: str) -> None:
    found, expected = parts(text), urlsplit(text)

    assert found is not None
    assert (found.get("path", ""), found.get("query", ""), found.get("fragment", "")) == tuple(expected)[2:]
    assert (found["domain"].strip("[]"), found.get("port")) == (expected.hostname, expected.port)


def test_acceptance(acceptance: Path) -> None:
    """Events of the web servers, whose path, query and extension came from the same text; they have them decoded.

    In the others `url.path` or `url.query` came from columns of their own (IIS) or the text is not a URL (its error log).
    """
    events = [
        event
        for path in sorted(acceptance.glob("filebeat/*/*/*-expected.json"))
        for event in json.loads(path.read_text())
        if "url.path" in event and "url.original" in event and path.parts[-3] != "iis"
    ]
    found, reasons = run(Url(decode=True), *(event["url.original"] for event in events))

    names = ("url.path", "url.query", "url.extension")
    same = sum(all(event.get(name) == ours[name] for name in names) for event, ours in zip(events, found, strict=True))
    print(f"{same} of {len(events)}")
    assert not reasons
    assert same == len(events) >= 78
