"""The endpoints about dead letters, without Spark."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pyarrow.parquet as pq
import pytest
from asgi_client import request
from jobs_and_client import Client, Jobs
from running import wait_for

from connectors.file.sink import FileSink
from etl.running.dead_letters import letter_pages
from etl.running.dead_letters.letter_files import FilePosition, LetterFile, letter_files
from etl.running.dead_letters.letter_pages import LetterCursor
from etl.running.dead_letters.settled_letters import SettledLetters
from etl.server.app import create_app
from etl.server.boards import letter_board

A = "/api/pipelines/shop/a"


def write_letters(path: Path, events: Iterable[str], **more: object) -> None:
    """Append letters to the file of a pipeline."""
    letter = {"time": "2026-01-31T10:00:00.000000Z", "pipeline": "shop/a", "at": "steps[0] grok", "code": "grok-failed"}
    letter |= {"reason": "does not match", "source": "main", "partition": "f", "offset": 0, **more}
    with path.open("a") as file:
        file.writelines(f"{json.dumps({**letter, 'event': event})}\n" for event in events)


def pages(client: Client, query: str = "") -> Iterator[Any]:
    """All pages of dead letters."""
    after = ""
    while True:
        page = client("GET", f"{A}/dead/letters?{query}{after}").json
        yield page
        if page["is_last"]:
            return
        after = f"&after={page['next']}"


def test_dead_letters_are_grouped(jobs: Jobs, client: Client) -> None:
    client("PUT", A, jobs.text())
    letter = {"time": "2026-01-31T10:00:00.000000Z", "pipeline": "shop/a", "at": "steps[0] grok", "code": "grok-failed"}
    letter |= {"reason": "does not match", "source": "main", "partition": "f"}
    letters = [{**letter, "offset": number, "event": f"e{number}"} for number in range(30)]
    path = jobs.engine.state("shop/a").dead_letters
    path.write_text("".join(f"{json.dumps(one)}\n" for one in letters))

    shown = client("GET", f"{A}/dead").json

    assert [(one["code"], one["events"], one["example"]) for one in shown["groups"]] == [("grok-failed", 30, "e0")]
    assert [one["event"] for one in shown["last"]] == [f"e{n}" for n in range(10, 30)]
    assert shown["groups"][0]["stop"] is None
    query = "at=grok&code=grok-failed&reason=match&text=e1&since=2026-01-31&until=2026-02-01"
    assert [one["events"] for one in client("GET", f"{A}/dead?{query}").json["groups"]] == [11]
    assert client("GET", f"{A}/dead?until=2026-01-31").json["groups"] == []
    assert "until: 'soon' is not a time" in client("GET", f"{A}/dead?until=soon").json["error"]["message"]
    assert client("POST", f"{A}/dead/replay?text=e1").json["name"] == "shop/a"
    wait_for(lambda: jobs.engine.replays != [])
    assert jobs.engine.replays[0].letters.text == "e1"
    jobs.engine.replays[0].stop()
    jobs.wait("shop/a", "running")
    path.write_text("no JSON\n")
    assert "has lines that are not dead letters" in client("GET", f"{A}/dead").json["error"]["message"]


def test_only_new_dead_letters_are_counted(jobs: Jobs, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    client("PUT", A, jobs.text())
    path = jobs.engine.state("shop/a").dead_letters
    write_letters(path, (f"e{n}" for n in range(1000)))
    read: list[int] = []
    monkeypatch.setattr(letter_board, "_CHUNK_BYTES", 20_000)
    monkeypatch.setattr(
        LetterFile, "_letters", lambda *given, f=LetterFile._letters: read.append(f(*given).num_rows) or f(*given)
    )

    monkeypatch.setattr(letter_board, "READ_SECONDS", 0.0)
    first = client("GET", f"{A}/dead").json
    assert (0 < first["groups"][0]["events"] < 200, first["complete"]) == (True, False)
    monkeypatch.setattr(letter_board, "READ_SECONDS", 60.0)
    whole = client("GET", f"{A}/dead").json
    assert ([one["events"] for one in whole["groups"]], whole["complete"], sum(read)) == ([1000], True, 1000)

    write_letters(path, ["x" * 5000], code="too-large")
    more = client("GET", f"{A}/dead").json
    assert ([one["events"] for one in more["groups"]], sum(read)) == ([1000, 1], 1001)
    assert len(more["last"][-1]["event"]) <= 4097
    assert client("GET", f"{A}/dead").json == more
    assert sum(read) == 1001

    path.write_text("")  # as after a drop: another file
    write_letters(path, ["new"])
    assert [one["events"] for one in client("GET", f"{A}/dead").json["groups"]] == [1]
    inode, size = path.stat().st_ino, path.stat().st_size
    path.write_text("")
    write_letters(path, ["old"])
    os.utime(path, (2e9, 2e9))
    assert (path.stat().st_ino, path.stat().st_size) == (inode, size)
    assert client("GET", f"{A}/dead").json["groups"][0]["example"] == "old"


def test_an_answer_from_before_is_not_complete(jobs: Jobs, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the letters of one pipeline are read, a viewer of another gets its last answer, and is told to ask again."""
    first, other = A, f"{A[:-1]}b"
    paths = {}
    for address, name in ((first, "shop/a"), (other, "shop/b")):
        client("PUT", address, jobs.text(name[-1]))
        paths[name] = jobs.engine.state(name).dead_letters
        jobs.wait(name, "running")
    assert client("GET", f"{first}/dead").json["complete"]
    is_reading, goes_on = Event(), Event()

    def read(file: LetterFile, *given: Any, letters: Any = LetterFile._letters) -> Any:
        if file.path == paths["shop/b"]:
            is_reading.set()
            assert goes_on.wait(60)
        return letters(file, *given)

    monkeypatch.setattr(LetterFile, "_letters", read)
    for path in paths.values():
        write_letters(path, ["new"])
    reader = Thread(target=client, args=("GET", f"{other}/dead"))
    reader.start()
    assert is_reading.wait(60)
    before = client("GET", f"{first}/dead").json
    goes_on.set()
    reader.join()
    after = client("GET", f"{first}/dead").json

    assert (before["groups"], before["complete"]) == ([], False)
    assert ([one["example"] for one in after["groups"]], after["complete"]) == (["new"], True)


@pytest.mark.slow
def test_dead_letters_come_page_by_page(jobs: Jobs, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    client("PUT", A, jobs.text())
    assert client("GET", f"{A}/dead/letters").json == {"letters": [], "next": None, "is_last": True}
    path = jobs.engine.state("shop/a").dead_letters
    write_letters(path, (f"e{n}" for n in range(250)))

    found = list(pages(client, "limit=100"))
    assert [len(one["letters"]) for one in found] == [100, 100, 50]
    assert [one["event"] for page in found for one in page["letters"]] == [f"e{n}" for n in range(250)]
    chosen = [one["event"] for page in pages(client, "limit=7&text=9") for one in page["letters"]]
    assert chosen == [f"e{n}" for n in range(250) if "9" in str(n)]

    write_letters(path, ["later"])
    assert [one["event"] for one in client("GET", f"{A}/dead/letters?after={found[-1]['next']}").json["letters"]] == ["later"]
    monkeypatch.setattr(letter_pages, "PAGE_BYTES", 50)
    small = list(pages(client))
    assert max(len(one["letters"]) for one in small) == 4
    assert sum(len(one["letters"]) for one in small) == 251

    assert "is not a `next` of an earlier page" in client("GET", f"{A}/dead/letters?after=xyz").json["error"]["message"]
    forged = LetterCursor(path.name, LetterFile(path.name, path).head(), FilePosition(17, 0), 0).encode()
    assert "no line that begins at byte 17" in client("GET", f"{A}/dead/letters?after={forged}").json["error"]["message"]
    path.write_text("")
    assert "the file of that page is gone" in client("GET", f"{A}/dead/letters?after={found[0]['next']}").json["error"]["message"]


def test_pages_go_through_folders_and_files_whose_names_begin_alike(tmp_path: Path) -> None:
    (tmp_path / "dead" / "a").mkdir(parents=True)
    for name in ("a/1", "a-b", "a.b", "b"):
        write_letters(tmp_path / "dead" / f"{name}.jsonl", [name])
    files = letter_files(FileSink(type="file", path=f"{tmp_path}/dead/", format="json"))

    found, after = [], None
    for _ in files:
        page = letter_pages.letter_page(files, SettledLetters.load(tmp_path), lambda letters: letters, after, 1)
        found += [letter["event"] for letter in page.letters]
        after = page.next

    assert sorted(found) == ["a-b", "a.b", "a/1", "b"]


def test_dead_letters_are_exported_without_secrets(jobs: Jobs, client: Client) -> None:
    sink = 'sink: {type: http, urls: "http://localhost:1/", token: hunter2-secret}\n'
    client("PUT", A, jobs.text().partition("sink:")[0] + sink)
    path = jobs.engine.state("shop/a").dead_letters
    write_letters(path, ["one", "has hunter2-secret", "two\nlines"])

    answer = client("GET", f"{A}/dead/export")
    assert [json.loads(line)["event"] for line in answer.text.splitlines()] == ["one", "has ***", "two\nlines"]
    assert answer.headers["content-disposition"] == 'attachment; filename="shop-a-dead-letters.jsonl"'
    assert client("GET", f"{A}/dead/export?format=log&text=one").text == "one\n"
    parquet = request(create_app(jobs.server), "GET", f"{A}/dead/export", query="format=parquet")
    assert pq.read_table(io.BytesIO(parquet.body)).column("event").to_pylist() == ["one", "has ***", "two\nlines"]
    assert client("GET", f"{A}/dead/export?format=xml").status == 400
    path.write_text("no JSON\n")
    assert client("GET", f"{A}/dead/export").status == 422


def test_dead_letters_are_dropped_while_the_pipeline_waits(jobs: Jobs, client: Client) -> None:
    client("PUT", A, jobs.text())
    jobs.wait("shop/a", "running")
    state = jobs.engine.state("shop/a")
    write_letters(state.dead_letters, ["one", "two", "three"])
    first = jobs.run("shop/a")
    assert [one["events"] for one in client("GET", f"{A}/dead").json["groups"]] == [3]

    assert client("POST", f"{A}/dead/drop?text=t").status == 200
    wait_for(lambda: jobs.run("shop/a") is not first)
    assert [one["event"] for page in pages(client) for one in page["letters"]] == ["one"]
    assert [one["events"] for one in client("GET", f"{A}/dead").json["groups"]] == [1]
    assert client("GET", f"{A}/dead/export?format=txt").text == "one\n"
    assert "dropped 2 dead letters" in [one["message"] for one in client("GET", f"{A}/logs").json]

    jobs.wait("shop/a", "running")
    client("POST", f"{A}/dead/drop")
    wait_for(lambda: not state.dead_letters.exists())
    assert client("GET", f"{A}/dead").json["groups"] == []


def test_a_dead_letter_shows_where_its_text_stops_matching(jobs: Jobs, client: Client) -> None:
    grok = "- {type: grok, patterns: ['%{WORD:a} %{NUMBER:b:int}']}\n- {type: grok, field: a, patterns: ['x%{NUMBER:c}']}\n"
    client("PUT", A, jobs.text().replace("- {type: filter, where: \"message <> ''\"}\n", grok))
    path = jobs.engine.state("shop/a").dead_letters
    letter = {"time": "2026-01-31T10:00:00.000000Z", "pipeline": "shop/a", "code": "grok-failed", "reason": "does not match"}
    letter |= {"source": "main", "partition": "f"}
    events = {"steps[0] grok": "one two", "steps[1] grok": '{"message": "y 1", "a": "xy", "b": 1}', "steps[7] grok": "gone"}
    letters = [{**letter, "at": at, "offset": n, "event": event} for n, (at, event) in enumerate(events.items())]
    path.write_text("".join(f"{json.dumps(one)}\n" for one in letters))

    stops = {one["at"]: one["stop"] for one in client("GET", f"{A}/dead").json["groups"]}

    assert {at: stop and (stop["text"], stop["at"]) for at, stop in stops.items()} == {
        "steps[0] grok": ("one two", 4),
        "steps[1] grok": ("xy", 1),
        "steps[7] grok": None,
    }
    assert "NUMBER" in str(stops["steps[0] grok"])
