"""A server that is killed with SIGKILL within a replay of dead letters, and within a deploy: then it starts again, the pipeline
runs, and every event is in its output exactly once.

``KILLS=10`` kills it ten times each, at other moments (`make kills-server`).
"""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException
from pathlib import Path

import pytest
from jobs_and_client import Client
from running import Etl, wait_for
from test_serve_killed import serving

KILLS = int(os.environ.get("KILLS", "1"))
LETTERS = 3000
"""Dead letters of a round."""

JOB = "/api/pipelines/shop/a"
PIPELINE = """\
# version {version}
source: {{type: file, path: "{here}/a.log"}}
steps: [{{type: regex, patterns: ["^{words}(?P<n>[0-9]+)$"]}}]
sink: {{type: file, path: "{here}/a.jsonl"}}
"""


class Shop:
    """A pipeline whose next version accepts what the one before rejected."""

    def __init__(self, etl: Etl) -> None:
        self.folder = etl.folder
        self.log, self.out = etl.folder / "a.log", etl.folder / "a.jsonl"
        self.sent = 0
        self.words: list[str] = []
        """Words in front of a number that the present version accepts."""

    def text(self, version: object) -> str:
        words = f"(?:{'|'.join(self.words)})?" if self.words else ""
        return PIPELINE.format(version=version, words=words, here=self.folder)

    def append(self, word: str, count: int) -> None:
        with self.log.open("a") as file:
            file.writelines(f"{word}{number}\n" for number in range(self.sent, self.sent + count))
        self.sent += count

    def numbers(self) -> Counter[int]:
        with suppress(FileNotFoundError):
            return Counter(int(json.loads(line)["n"]) for line in self.out.read_text().splitlines())
        return Counter()

    def check(self) -> None:
        assert self.numbers() == Counter(range(self.sent)), "each event once"


def open_letters(client: Client) -> int:
    """Open dead letters, once all are counted; -1 before."""
    found = client("GET", f"{JOB}/dead").json
    return sum(group["events"] for group in found["groups"]) if found["complete"] else -1


def wait_until_running(client: Client) -> None:
    wait_for(lambda: client("GET", JOB).json.get("status") == "running", what="the pipeline")


@contextmanager
def changed(client: Client, method: str, path: str, body: str | None = None) -> Iterator[list[int]]:
    """Send a request while the body runs; gives the list with its answer's status."""
    answers: list[int] = []

    def send() -> None:
        with suppress(OSError, HTTPException):
            answers.append(client(method, path, body).status)

    thread = threading.Thread(target=send)
    thread.start()
    yield answers
    thread.join()


def replay_all(client: Client) -> float:
    """Replay until no letter is open; returns the seconds."""
    begun = time.monotonic()
    while (letters := open_letters(client)) != 0:
        if letters > 0:
            client("POST", f"{JOB}/dead/replay")
            wait_until_running(client)
    return time.monotonic() - begun


@pytest.mark.spark
@pytest.mark.slow
def test_a_replay_that_is_killed_delivers_every_letter_once(etl: Etl, tmp_path: Path) -> None:
    shop, choice, longest = Shop(etl), random.Random(), 5.0
    (tmp_path / "jobs" / "shop").mkdir(parents=True)
    job = etl.pipeline(shop.text(0), "jobs/shop/a.yaml")
    moments: list[str] = []

    for number in range(KILLS):
        with serving(etl) as (process, client):
            word = f"w{number} "
            shop.append(word, LETTERS)
            wait_for(lambda: open_letters(client) == LETTERS, what="the dead letters")
            shop.words.append(word)
            assert client("PUT", JOB, shop.text(number)).status == 200
            wait_until_running(client)
            with changed(client, "POST", f"{JOB}/dead/replay"):
                time.sleep(choice.uniform(0, longest))
                moments.append(f"{client('GET', JOB).json['status']}, {len(shop.numbers()) - shop.sent + LETTERS} delivered")
                process.kill()
        shop.append("", 10)
        with serving(etl) as (process, client):
            wait_until_running(client)
            longest = max(2.0, replay_all(client))
            wait_for(lambda: len(shop.numbers()) >= shop.sent, what="all events")
            shop.check()
            process.terminate()
            assert process.wait(120) == 0

    print(f"killed while the pipeline was: {'; '.join(moments)}")
    assert job.exists()


@pytest.mark.spark
@pytest.mark.slow
def test_a_deploy_that_is_killed_runs_one_of_its_versions(etl: Etl, tmp_path: Path) -> None:
    shop, choice, longest = Shop(etl), random.Random(), 3.0
    (tmp_path / "jobs" / "shop").mkdir(parents=True)
    etl.pipeline(shop.text("first"), "jobs/shop/a.yaml")
    moments: list[str] = []

    for number in range(KILLS):
        with serving(etl) as (process, client):
            wait_until_running(client)
            shop.append("", 1000)
            before = client("GET", JOB).json["version"]
            with changed(client, "PUT", JOB, shop.text(number)) as answers:
                time.sleep(choice.uniform(0, longest))
                process.kill()
            moments.append(f"{answers}, {len(shop.numbers())} of {shop.sent}")
        shop.append("", 10)
        with serving(etl) as (process, client):
            wait_until_running(client)
            found = client("GET", JOB).json["version"]
            assert found in ((before + 1,) if 200 in answers else (before, before + 1))
            text = client("GET", f"{JOB}/file").json["text"]
            assert text.startswith(f"# version {number}\n") == (found > before), "the version is the one that runs"
            wait_for(lambda: len(shop.numbers()) >= shop.sent, what="all events")
            shop.check()
            process.terminate()
            assert process.wait(120) == 0

    print(f"answers and events when killed: {'; '.join(moments)}")
