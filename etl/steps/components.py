"""All steps of the engine, for the catalogue."""

from etl.api import Entry

COMPONENTS = (
    Entry("step", "filter", "etl.steps.filter:Filter"),
    Entry("step", "set", "etl.steps.set:Set"),
    Entry("step", "select", "etl.steps.select:Select"),
    Entry("step", "keep", "etl.steps.keep:Keep"),
    Entry("step", "drop", "etl.steps.drop:Drop"),
    Entry("step", "rename", "etl.steps.rename:Rename"),
    Entry("step", "convert", "etl.steps.convert:Convert"),
    Entry("step", "window", "etl.steps.window:Window"),
    Entry("step", "dedupe", "etl.steps.keyed.dedupe:Dedupe"),
    Entry("step", "throttle", "etl.steps.keyed.throttle:Throttle"),
    Entry("step", "join", "etl.steps.joining.join:Join"),
    Entry("step", "sequence", "etl.steps.sequences.sequence:Sequence"),
    Entry("step", "suppress", "etl.steps.keyed.suppress:Suppress"),
    Entry("step", "top", "etl.steps.keyed.top:Top"),
    Entry("step", "over", "etl.steps.keyed.over:Over"),
    Entry("step", "over_all", "etl.steps.keyed.over_all:OverAll"),
    Entry("step", "rules", "etl.steps.detection.rules:Rules"),
    Entry("step", "correlate", "etl.steps.detection.correlate:Correlate"),
    Entry("step", "lookup", "etl.steps.lookup:Lookup"),
    Entry("step", "related", "etl.steps.related:Related"),
    Entry("step", "unnest", "etl.steps.unnest:Unnest"),
    Entry("step", "changelog", "etl.steps.changelog:Changelog"),
    Entry("step", "script", "etl.steps.script:Script"),
    Entry("step", "sql", "etl.steps.sql:Sql"),
    Entry("step", "python", "etl.steps.python:Python"),
    Entry("step", "keyed_python", "etl.steps.keyed.keyed_python:KeyedPython"),
)
