"""Fetching into the cache: completely or not at all, once, by one process at a time, with errors that give advice."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from servers import cache, command, debian, maven
from servers.cache import MissingError


@pytest.fixture(autouse=True)
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("SLUICE_SERVERS", str(folder))
    return folder


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder at the front of ``PATH`` for commands of the test."""
    folder = tmp_path / "commands"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setattr("servers.maven.PAUSE", 0)
    return folder


def fake(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{textwrap.dedent(script)}")
    path.chmod(0o755)


def test_a_folder_is_made_once(cached: Path) -> None:
    made = []

    def make(part: Path) -> None:
        made.append(part)
        (part / "jar").write_text("x")

    first, second = cache.fetch_once("thing-1", make), cache.fetch_once("thing-1", make)

    assert (first, second, len(made)) == (cached / "thing-1", cached / "thing-1", 1)
    assert (first / "jar").read_text() == "x"


def test_a_failed_fetch_leaves_nothing_and_can_be_repeated(cached: Path) -> None:
    def broken(part: Path) -> None:
        (part / "half").write_text("x")
        raise OSError("the network is gone")

    with pytest.raises(OSError, match="the network is gone"):
        cache.fetch_once("thing-1", broken)

    assert [path.name for path in cached.iterdir() if path.is_dir()] == []
    assert list(cache.fetch_once("thing-1", lambda part: None).iterdir()) == []


def test_the_rest_of_a_killed_fetch_does_not_count_as_complete(cached: Path) -> None:
    left = cached / ".thing-1.part"
    left.mkdir(parents=True)
    (left / "half").write_text("x")

    assert list(cache.fetch_once("thing-1", lambda part: None).iterdir()) == []
    assert not left.exists()


def test_two_processes_fetch_once(cached: Path, tmp_path: Path) -> None:
    script = """
        import sys, time
        from pathlib import Path
        from servers import cache
        def make(part):
            with open(sys.argv[1], "a") as log: log.write("made\\n")
            until = time.monotonic() + 1
            while time.monotonic() < until and not Path(sys.argv[2]).exists(): time.sleep(0.01)
            (part / "whole").write_text("x")
        print((cache.fetch_once("thing-1", make) / "whole").read_text())
    """
    log, go = tmp_path / "log", tmp_path / "go"
    line = [sys.executable, "-c", textwrap.dedent(script), str(log), str(go)]
    environment = {**os.environ, "PYTHONPATH": str(Path(cache.__file__).parents[1])}

    running = [
        subprocess.Popen(line, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) for _ in range(2)
    ]
    answers = [process.communicate(timeout=300)[0].strip() for process in running]

    assert (answers, log.read_text()) == (["x", "x"], "made\n")


def test_maven_is_run_again_after_a_failure_of_the_registry(commands: Path, tmp_path: Path) -> None:
    count = tmp_path / "count"
    fake(commands, "javac", "exit 0")
    fake(
        commands,
        "mvn",
        f"""
        echo x >> {count}
        [ $(wc -l < {count}) -lt 2 ] && {{ echo 'Could not transfer artifact'; exit 1; }}
        for word in "$@"; do case $word in -DoutputDirectory=*) lib=${{word#*=}};; esac; done
        mkdir -p $lib && touch $lib/server.jar
        """,
    )

    jars = maven.jars("kafka")

    assert [jar.name for jar in (jars / "lib").iterdir()] == ["server.jar"]
    assert jars.name.startswith("kafka-4.3.")


def test_the_error_of_maven_has_its_last_lines(commands: Path, cached: Path) -> None:
    fake(commands, "javac", "exit 0")
    fake(commands, "mvn", "echo 'Could not find artifact kafka_2.13'; exit 1")

    with pytest.raises(MissingError, match=r"jars of kafka \(3 attempts\)[\s\S]*Could not find artifact kafka_2.13"):
        maven.jars("kafka")
    assert not any(path.is_dir() for path in cached.iterdir())


def test_the_error_without_maven_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(MissingError, match="the command 'mvn' is not here; install Maven and a JDK of 17 or later"):
        maven.jars("kafka")


def test_another_pom_is_another_folder(tmp_path: Path) -> None:
    (tmp_path / "pom.xml").write_text("<server.version>1.2.3</server.version>")
    before = maven._digest(tmp_path)
    (tmp_path / "pom.xml").write_text("<server.version>1.2.3</server.version><!-- -->")

    assert (maven.version(tmp_path), maven._digest(tmp_path) == before) == ("1.2.3", False)


def test_a_change_of_shared_java_files_is_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe, shared = tmp_path / "recipe", tmp_path / "shared"
    recipe.mkdir()
    shared.mkdir()
    (shared / "Both.java").write_text("class Both {}")
    monkeypatch.setattr(maven, "SHARED", shared)

    def changes(source: str) -> bool:
        (recipe / "Main.java").write_text(source)
        before = maven._digest(recipe)
        (shared / "Both.java").write_text((shared / "Both.java").read_text() + "//")
        return maven._digest(recipe) != before

    assert (changes("class Main { int x = Both.x; }"), changes("class Main {}")) == (True, False)


APT = """
case " $* " in
  *" --simulate "*) echo 'Inst libneeded (1.2 Debian:12 [amd64])';;
  *" download "*)
    for word in "$@"; do last="$last $word"; done; echo "$last" >> {log}
    [ -e {broken} ] && case " $* " in *Dir::State::lists=*) ;; *) echo '404 Not Found'; exit 100;; esac
    touch server.deb libneeded.deb;;
  *" update "*) echo update >> {log};;
esac
"""
DPKG = """
mkdir -p "$3/usr/bin" "$3/usr/share"
touch "$3/usr/bin/$(basename "$2" .deb)"
ln -sf /usr/bin/server "$3/usr/share/link"
"""


@pytest.mark.parametrize("stale", [False, True])
def test_debian_packages_are_unpacked_with_their_dependencies(stale: bool, commands: Path, tmp_path: Path) -> None:
    log, broken = tmp_path / "log", tmp_path / "broken"
    if stale:
        broken.touch()
    fake(commands, "apt-get", APT.format(log=log, broken=broken))
    fake(commands, "dpkg", DPKG)

    tree = debian.unpacked("thing", ["server"])

    assert sorted(path.name for path in tree.root.rglob("*") if path.is_file()) == ["libneeded", "link", "server"]
    assert os.readlink(tree.root / "usr/share/link") == "../bin/server"  # it pointed out of the tree
    assert "server libneeded=1.2" in log.read_text()
    assert ("update" in log.read_text()) is stale


def test_an_error_names_packages_that_cannot_be_fetched(commands: Path) -> None:
    fake(commands, "apt-get", "echo 'E: Unable to locate package server'; exit 100")

    with pytest.raises(MissingError, match=r"Debian packages server could not be fetched[\s\S]*Unable to locate package"):
        debian.unpacked("thing", ["server"])


def test_a_command_that_hangs_is_killed() -> None:
    with pytest.raises(command.CommandError, match="sleep did not end within 0 s"):
        command.run("sleep", 60, seconds=0.1)
