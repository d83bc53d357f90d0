"""The application of ``etl studio``: who may ask, what is refused, and which files it writes."""

from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from running import ROOT

pytest.importorskip("starlette", reason="the page needs the extra: pip install 'sluice-etl[server]'")

from asgi_client import Answer, request

from etl.server.access import MAX_BODY_BYTES
from etl.server.studio import page
from etl.server.studio.format_search import open_file
from etl.server.studio.standalone import standalone_app
from etl.server.studio.worker_process import StudioError, WorkerProcess

TOKEN = {"authorization": "Bearer secret"}


@pytest.fixture
def app(tmp_path: Path) -> Any:
    return standalone_app(tmp_path, None, "secret")


def post(app: Any, path: str, value: Any, **headers: str) -> Answer:
    return request(app, "POST", path, json.dumps(value).encode(), **{**TOKEN, **headers})


def test_the_page_is_served_with_a_policy_that_runs_its_own_scripts_only(app: Any) -> None:
    answer = request(app, "GET", "/studio")

    policy = answer.headers["content-security-policy"]
    assert answer.status == 200
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy
    nonce = policy.partition("'nonce-")[2].partition("'")[0]
    assert f'content="{nonce}"'.encode() in answer.body
    assert f'content="{nonce}"'.encode() not in request(app, "GET", "/studio").body
    assert b"<script>" not in answer.body
    assert b"http://" not in answer.body


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({**TOKEN}, 200),
        ({}, 401),
        ({"authorization": "Bearer other"}, 401),
    ],
)
def test_only_this_machine_with_the_token_is_answered(app: Any, headers: dict[str, str], status: int) -> None:
    assert request(app, "GET", "/api/studio", **headers).status == status


def test_a_page_of_another_origin_and_a_large_body_are_refused(app: Any) -> None:
    files = {"files": {"a.yaml": "x"}}

    assert post(app, "/api/studio/save", files, origin="http://evil.example").status == 403
    assert post(app, "/api/studio/save", files, origin="null").status == 403
    assert post(app, "/api/studio/save", files, content_length=str(MAX_BODY_BYTES + 1)).status == 413
    assert request(app, "POST", "/api/studio/save", b" " * (MAX_BODY_BYTES + 1), **TOKEN).status == 413


@pytest.mark.parametrize("name", ["../a.yaml", "/tmp/a.yaml", "a/b.yaml", ".a.yaml", "a.txt", "a.yaml\n", "a\0.yaml", ""])
def test_no_file_is_written_outside_of_the_folder(app: Any, tmp_path: Path, name: str) -> None:
    answer = post(app, "/api/studio/save", {"files": {name: "x"}})

    assert answer.status == 422
    assert "is not a file name" in answer.json["error"]["message"]
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_exists_is_replaced_only_when_asked(app: Any, tmp_path: Path) -> None:
    written = post(app, "/api/studio/save", {"files": {"a.yaml": "one", "a_test.yaml": "two"}})
    again = post(app, "/api/studio/save", {"files": {"a.yaml": "three"}})
    replaced = post(app, "/api/studio/save", {"files": {"a.yaml": "four"}, "replace": True})

    assert written.json == {"written": [str(tmp_path / "a.yaml"), str(tmp_path / "a_test.yaml")]}
    assert (again.status, replaced.status) == (422, 200)
    assert (tmp_path / "a.yaml").read_text() == "four"


def test_samples_are_those_of_the_package(app: Any) -> None:
    names = request(app, "GET", "/api/studio/samples", **TOKEN).json

    assert "ssh-auth.log" in names
    assert request(app, "GET", "/api/studio/samples/ssh-auth.log", **TOKEN).json["text"]
    assert request(app, "GET", "/api/studio/samples/..%2Fpyproject.toml", **TOKEN).status == 404


def test_a_query_with_other_keys_says_which(app: Any) -> None:
    answer = post(app, "/api/studio/try", {"text": "", "lines": "", "stepp": "x"})

    assert answer.status == 422
    assert answer.json["error"]["message"].startswith("stepp: ")


def test_the_command_opens_a_pipeline_or_lines(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("source:")
    (tmp_path / "a.log.gz").write_bytes(gzip.compress(b"one\r\ntwo\n"))

    assert open_file(tmp_path / "a.yaml")["kind"] == "pipeline"
    assert (open_file(tmp_path / "a.log.gz")["kind"], open_file(tmp_path / "a.log.gz")["text"]) == ("lines", "one\ntwo\n")


def test_files_of_the_page_are_compressed_for_browsers_that_ask_for_it(app: Any) -> None:
    answer = request(app, "GET", "/static/app.js", accept_encoding="gzip")

    assert answer.headers["content-encoding"] == "gzip"
    assert gzip.decompress(answer.body) == (page.STATIC / "app.js").read_bytes()
    assert request(app, "GET", "/static/../guard.py").status == 404


@pytest.mark.slow
def test_a_request_that_takes_too_long_ends_and_the_next_one_is_answered() -> None:
    worker = WorkerProcess(max_seconds=0.02)
    try:
        worker.call("warm")
        with pytest.raises(StudioError, match=r"took longer than 0\.02 s"):
            worker.call("infer", text="\n".join(f"{n} line {n % 7} of user{n}: done" for n in range(5_000)))
        with pytest.raises(StudioError, match="TypeError"):
            worker.call("try", wrong=1)
    finally:
        worker.close()


def test_the_built_page_is_that_of_its_sources() -> None:
    web = ROOT / "web"
    digest = hashlib.sha256()
    files = [
        "package-lock.json",
        "build.mjs",
        *(path.relative_to(web).as_posix() for path in (web / "src").rglob("*") if path.is_file()),
    ]
    for name in sorted(files):
        digest.update(name.encode() + b"\0" + (web / name).read_bytes() + b"\0")

    built = (page.STATIC / "SOURCES.sha256").read_text().strip()

    assert built == digest.hexdigest(), "build the page: cd web && npm ci && npm run build"
