"""All sources and sinks, for the catalogue."""

from etl.api import Entry

COMPONENTS = (
    Entry("source", "file", "connectors.file.source:FileSource"),
    Entry("source", "stdin", "connectors.stdin.source:StdinSource"),
    Entry("source", "syslog", "connectors.syslog.source:SyslogSource"),
    Entry("source", "http", "connectors.http.source:HttpSource"),
    Entry("source", "beats", "connectors.beats.source:BeatsSource"),
    Entry("source", "forward", "connectors.forward.source:ForwardSource"),
    Entry("source", "rocketmq", "connectors.rocketmq.source:RocketmqSource"),
    Entry("source", "database", "connectors.database.source:DatabaseSource"),
    Entry("source", "generate", "connectors.generate.source:GenerateSource"),
    Entry("source", "inline", "connectors.inline:InlineSource"),
    Entry("source", "kafka", "connectors.kafka.source:KafkaSource"),
    Entry("source", "spark", "connectors.spark:SparkSource"),
    Entry("source", "stream", "connectors.stream.source:StreamSource"),
    Entry("source", "elasticsearch", "connectors.elasticsearch.source:ElasticsearchSource"),
    Entry("sink", "file", "connectors.file.sink:FileSink"),
    Entry("sink", "kafka", "connectors.kafka.sink:KafkaSink"),
    Entry("sink", "console", "connectors.console.sink:ConsoleSink"),
    Entry("sink", "elasticsearch", "connectors.elasticsearch.sink:ElasticsearchSink"),
    Entry("sink", "http", "connectors.http.sink:HttpSink"),
    Entry("sink", "splunk_hec", "connectors.splunk.sink:SplunkHecSink"),
    Entry("sink", "rocketmq", "connectors.rocketmq.sink:RocketmqSink"),
    Entry("sink", "database", "connectors.database.sink:DatabaseSink"),
    Entry("sink", "stream", "connectors.stream.sink:StreamSink"),
    Entry("sink", "discard", "connectors.discard:DiscardSink"),
    Entry("table", "file", "connectors.lookup_tables.file:FileTable"),
    Entry("table", "inline", "connectors.lookup_tables.inline:InlineTable"),
    Entry("table", "database", "connectors.lookup_tables.database:DatabaseTable"),
    Entry("table", "http", "connectors.lookup_tables.http:HttpTable"),
)
