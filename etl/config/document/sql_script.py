"""SQL script → document: its value is that of the pipeline file that says the same."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from etl.catalogue import Catalogue
from etl.config.document.parser import decode
from etl.config.document.text_locations import location_of
from etl.config.document.yaml_document import Document, EntryLocation, YamlProblem
from etl.config.model import OptionPath

_SINK_HINTS = {
    "changing-results": "declare the key of the results in the table: PRIMARY KEY (…) NOT ENFORCED; "
    "a file takes 'format' = 'debezium-json'"
}


def read_script(data: bytes, catalogue: Catalogue, folder: Path, java_functions: str = "") -> Document:
    """Bytes of a script in a folder → document, with the locations of its parts in the script. ``java_functions``: the
    Python file with functions in place of those in Java."""
    from etl.config.layout import lay_out
    from etl.config.options.faults import typed_texts
    from etl.config.options.repair import used_components
    from etl.config.report import Report
    from etl.sql.columns import UNKNOWN_FIELD
    from etl.sql.recovery import check_script
    from etl.sql.script import ScriptCompiler

    text = decode(data)
    if isinstance(text, YamlProblem):
        return Document("", flaws=[text])
    compiled = check_script(text, ScriptCompiler(catalogue, folder, java_functions))
    document = Document(text, compiled.value, sink_hints=_SINK_HINTS, incomplete={*compiled.incomplete})
    document.unknown_fields = UNKNOWN_FIELD if compiled.errors else None
    document.locations = _locations(text, compiled.locations)
    if views := compiled.unused_views:
        document.unused = Document(text, views.value, _locations(text, views.locations))
        document.unused.unknown_fields = UNKNOWN_FIELD if views.wrong else None
        document.unused.spans = [(location_of(text, first), location_of(text, last)) for first, last in views.spans]
    document.flaws = [
        YamlProblem(location_of(text, error.at), error.code, str(error), hint=error.hint) for error in compiled.errors
    ]
    if compiled.declares_only or not compiled.value["sinks"]:
        document.value = None
    else:
        used = used_components(
            lay_out(compiled.value, Report("", document)), catalogue
        )  # loading all would take as long as the rest
        document.value = typed_texts(compiled.value, used, lambda path: True)
    document.flaws += [
        YamlProblem(location_of(text, one.at), one.code, str(one), hint=one.hint, severity="warning") for one in compiled.warnings
    ]
    return document


def _locations(text: str, characters: Mapping[OptionPath, tuple[int | None, int]]) -> dict[OptionPath, EntryLocation]:
    """Locations of keys and values from their characters."""
    return {
        path: EntryLocation(None if key is None else location_of(text, key), location_of(text, value))
        for path, (key, value) in characters.items()
    }
