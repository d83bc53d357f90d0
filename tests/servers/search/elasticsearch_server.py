"""Elasticsearch 7, 8 and 9: one node of its core and its network module."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import ClassVar

from servers import maven
from servers.java import class_path
from servers.search.search_node import SearchNode

NETWORK = "transport-netty4"
DESCRIPTOR = "plugin-descriptor.properties"


class Elasticsearch(SearchNode):
    """Elasticsearch 8 without authentication on loopback.

    The registry has its core, not its x-pack: no security, no data streams, and ``GET /`` answers 405.
    """

    name: ClassVar[str] = "elasticsearch"
    main: ClassVar[str] = "ElasticsearchNode"
    options: ClassVar[tuple[str, ...]] = ("-Des.distribution.type=tar", "-Djava.library.path=/nonexistent")

    def path(self) -> str:
        """Return all jars except those of the network module, which has a class loader of its own."""
        jars = maven.jars(self.name)
        return class_path(jars / "classes", *(jar for jar in _jars(jars) if not _of_network(jar)))

    def prepare(self) -> None:
        """Create the folder of the network module: its jars and its descriptor, which must not name a Java module."""
        module = self.folder / "modules" / NETWORK
        module.mkdir(parents=True)
        network = [jar for jar in _jars(maven.jars(self.name)) if _of_network(jar)]
        for jar in network:
            (module / jar.name).symlink_to(jar)
        (own,) = (jar for jar in network if jar.name.startswith(NETWORK))
        with zipfile.ZipFile(own) as content:
            lines = content.read(f"META-INF/es-plugins/{NETWORK}/{DESCRIPTOR}").decode().splitlines()
        (module / DESCRIPTOR).write_text("\n".join(line for line in lines if not line.startswith("modulename")))


class Elasticsearch9(Elasticsearch):
    """Elasticsearch 9 without authentication on loopback."""

    name: ClassVar[str] = "elasticsearch9"
    main: ClassVar[str] = "Elasticsearch9Node"
    options: ClassVar[tuple[str, ...]] = (*Elasticsearch.options, "--enable-native-access=ALL-UNNAMED")
    release: ClassVar[int] = 21


class Elasticsearch7(SearchNode):
    """Elasticsearch 7, whose network module can be on the class path of the core."""

    name: ClassVar[str] = "elasticsearch7"
    main: ClassVar[str] = "Elasticsearch7Node"
    options: ClassVar[tuple[str, ...]] = ("-Des.distribution.type=tar",)

    def path(self) -> str:
        jars = maven.jars(self.name)
        return class_path(jars / "classes", jars / "lib" / "*")


def _jars(folder: Path) -> list[Path]:
    return sorted((folder / "lib").glob("*.jar"))


def _of_network(jar: Path) -> bool:
    return jar.name.startswith((NETWORK, "netty-"))
