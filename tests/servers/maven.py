"""Jars from the Maven registry of the machine's settings, as a pom.xml of the tests lists them."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import time
from pathlib import Path

from servers import cache, jdk
from servers.cache import MissingError
from servers.command import CommandError, find, run

POMS = Path(__file__).parent / "jars"
SHARED = POMS / "shared"
"""Java files that several poms share."""
OLDEST = 17
"""Version of Java for a pom that sets none."""
ATTEMPTS = 3
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of Maven's Java, unless ``MAVEN_OPTS`` has others: the quick compiler alone saves a third of its CPU time."""
PAUSE = 2.0
"""Seconds before the second attempt."""
HINT = "install Maven and a JDK of 17 or later (Debian: apt-get install maven openjdk-17-jdk-headless)"


def jars(name: str) -> Path:
    """A folder with ``lib/*.jar`` of ``jars/<name>/pom.xml`` and ``classes/`` of the Java files beside it.

    The folder is named after the version and a digest of what it is made of: another pom is another folder.
    """
    recipe = POMS / name
    return cache.fetch_once(f"{name}-{version(recipe)}-{_digest(recipe)}", lambda part: _fill(recipe, part))


def version(recipe: Path) -> str:
    """Return the server's version in a pom."""
    found = re.search(r"<server\.version>([\w.]+)</server\.version>", (recipe / "pom.xml").read_text("utf-8"))
    if found is None:
        raise ValueError(f"{recipe / 'pom.xml'} has no property server.version")
    return found[1]


def release(recipe: Path) -> int:
    """Return the version of Java in a pom."""
    found = re.search(r"<java\.release>(\d+)</java\.release>", (recipe / "pom.xml").read_text("utf-8"))
    return int(found[1]) if found else OLDEST


def _digest(recipe: Path) -> str:
    parts = [path.read_bytes() for path in sorted(recipe.iterdir())]
    parts += [path.read_bytes() for path in sorted(SHARED.iterdir()) if any(path.stem.encode() + b"." in one for one in parts)]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:8]


def _fill(recipe: Path, part: Path) -> None:
    expected = release(recipe)
    maven, javac = find("mvn", HINT), find("javac", HINT) if expected == OLDEST else jdk.of(expected, "javac")
    work = part / "pom"  # Maven writes beside its pom
    shutil.copytree(recipe, work)
    _copy_jars(recipe.name, maven, work / "pom.xml", part / "lib")
    if sources := sorted(work.glob("*.java")):
        places = ["-cp", f"{part / 'lib'}/*", "-sourcepath", SHARED, "-d", part / "classes"]
        run(javac, "-nowarn", "--release", expected, *places, *sources)
    shutil.rmtree(work)


def _copy_jars(name: str, maven: str, pom: Path, lib: Path) -> None:
    """Run Maven up to three times, because registries sometimes answer late or not at all. One at a time writes to its
    repository of jars, which has no locks."""
    environment = {**os.environ, "MAVEN_OPTS": os.environ.get("MAVEN_OPTS", QUICK)}
    words = ["-q", "-B", "-f", pom, "dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={lib}"]
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with cache.hold_lock("maven"):
                run(maven, *words, seconds=600, env=environment)
            return
        except CommandError as error:
            if attempt == ATTEMPTS:
                raise MissingError(f"Maven could not fetch the jars of {name} ({attempt} attempts): {error}") from error
            cache.print_progress(f"Maven failed, attempt {attempt} of {ATTEMPTS}: {str(error).splitlines()[-1].strip()}")
            time.sleep(PAUSE * attempt)
