"""All sources and sinks, for the catalogue."""

from etl.api import Entry

COMPONENTS = (
    Entry("source", "file", "connectors.file.source:FileSource"),
    Entry("source", "stdin", "connectors.stdin:StdinSource"),
    Entry("source", "syslog", "connectors.syslog_receiver.source:SyslogSource"),
    Entry("source", "generate", "connectors.generate:GenerateSource"),
    Entry("source", "spark", "connectors.spark_frames:SparkSource"),
    Entry("sink", "file", "connectors.file.sink:FileSink"),
    Entry("sink", "console", "connectors.console:ConsoleSink"),
    Entry("sink", "discard", "connectors.discard:DiscardSink"),
)
