"""The files of deploy/ start the server with options that it has."""

from __future__ import annotations

import json
import re

import pytest
import yaml
from running import ROOT

from etl.cli.server.serve import command

DEPLOY = ROOT / "deploy"


def options_of(words: list[str]) -> set[str]:
    return {word for word in words if word.startswith("--") and word != "--"}


def test_options_exist() -> None:
    unit = (DEPLOY / "sluice.service").read_text()
    image = (DEPLOY / "Containerfile").read_text()
    documents = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))
    (container,) = documents[1]["spec"]["template"]["spec"]["containers"]
    lines = {name: json.loads(words) for name, words in re.findall(r"^(ENTRYPOINT|CMD) (\[.*\])$", image, re.MULTILINE)}
    start = re.findall(r"^ExecStart=/opt/sluice/bin/etl serve (.*)$", unit, re.MULTILINE)[0].split()

    asked = options_of(start) | options_of(lines["ENTRYPOINT"]) | options_of(lines["CMD"]) | options_of(container["args"])

    known = {name for parameter in command.params for name in parameter.opts}
    assert asked - known == set()
    assert asked >= {"--listen", "--tokens", "--state", "--log-format"}
    assert container["args"] == lines["CMD"]


def test_the_image_copies_what_the_package_is_made_of() -> None:
    image = (DEPLOY / "Containerfile").read_text()

    copied = set(re.findall(r"^COPY (\w+) \w+$", image, re.MULTILINE))
    assert copied == {"etl", "connectors", "parsers", "pipelines", "schemas", "samples"}
    assert all((ROOT / folder).is_dir() for folder in copied)


@pytest.mark.parametrize("part", ["FROM debian:", "USER 10001", "HEALTHCHECK ", "STOPSIGNAL SIGTERM"])
def test_the_image_is_debian_without_root_and_with_a_health_check(part: str) -> None:
    assert re.search(f"^{re.escape(part)}", (DEPLOY / "Containerfile").read_text(), re.MULTILINE)
