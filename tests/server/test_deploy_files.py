"""The files of deploy/ start the server with options that it has."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from running import ROOT

from etl.cli.run.command import command as run_command
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


@pytest.mark.slow
def test_executors_in_kubernetes_start_with_what_spark_tells_them(tmp_path: Path) -> None:
    java = tmp_path / "java"
    java.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    java.chmod(0o755)
    environment = {
        "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@sluice-driver:7078",
        "SPARK_EXECUTOR_ID": "3",
        "SPARK_EXECUTOR_CORES": "1",
        "SPARK_EXECUTOR_MEMORY": "512m",
        "SPARK_APPLICATION_ID": "spark-1",
        "SPARK_EXECUTOR_POD_IP": "10.1.2.3",
        "SPARK_EXECUTOR_POD_NAME": "web-exec-3",
        "SPARK_RESOURCE_PROFILE_ID": "0",
        "SPARK_JAVA_OPT_0": "-Dspark.driver.port=7078",
        "SPARK_JAVA_OPT_1": "-Dname=two words",
    }
    path = {"PATH": f"{tmp_path}:{Path(sys.executable).parent}:/usr/bin:/bin"}
    words = [DEPLOY / "executor.sh", "executor"]

    started = subprocess.run(words, env=environment | path, capture_output=True, text=True, check=True).stdout.splitlines()

    assert started[2:5] == ["-Dspark.driver.port=7078", "-Dname=two words", "-Xms512m"]
    assert Path(started[started.index("-cp") + 1].strip(":*")).is_dir()
    assert list(Path(started[started.index("-cp") + 1].strip(":*")).glob("spark-kubernetes_*.jar"))
    assert started[-2:] == ["--podName", "web-exec-3"]


def test_the_driver_in_kubernetes_has_options_that_exist_and_addresses_of_its_service() -> None:
    documents = list(yaml.safe_load_all((DEPLOY / "kubernetes-executors.yaml").read_text()))
    by_kind = {document["kind"]: document for document in documents}
    (container,) = by_kind["Deployment"]["spec"]["template"]["spec"]["containers"]
    options = [word.partition("=")[::2] for word in container["args"]]
    settings = dict(value.split("=", 1) for name, value in options if name == "--conf")

    known = {name for parameter in run_command.params for name in parameter.opts}
    assert {name for name, _ in options} <= known
    assert settings["spark.driver.host"] == by_kind["Service"]["metadata"]["name"]
    assert [str(port["port"]) for port in by_kind["Service"]["spec"]["ports"]] == [
        settings["spark.driver.port"],
        settings["spark.driver.blockManager.port"],
    ]
    assert settings["spark.kubernetes.authenticate.driver.serviceAccountName"] == by_kind["ServiceAccount"]["metadata"]["name"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounts["shared"] == settings["spark.kubernetes.executor.volumes.persistentVolumeClaim.shared.mount.path"]
