"""OpenSearch: one node with the plugins for painless, ingest, reindex and analysis."""

from __future__ import annotations

from typing import ClassVar

from servers import maven
from servers.java import class_path
from servers.search.search_node import SearchNode


class OpenSearch(SearchNode):
    """OpenSearch 2 without authentication on loopback: the registry has no jar of its security plugin."""

    name: ClassVar[str] = "opensearch"
    main: ClassVar[str] = "OpenSearchNode"

    def path(self) -> str:
        jars = maven.jars("opensearch")
        return class_path(jars / "classes", jars / "lib" / "*")
