"""Rows of filebeat's modules for web servers, proxies, Elastic's own programs, Kafka and Icinga."""

from __future__ import annotations

from filebeat_case import Row

ZONE = {"TIMEZONE": "Etc/GMT+2"}
"""The zone of filebeat's run."""

DASHES = {"NONE": "nothing"}
"""Elastic's module keeps the dash that stands for no value."""

PARAMS = {"logstash.slowlog.plugin_params_object": "logstash.slowlog.plugin_params_object"}

OUTCOMES = {
    **{
        f"elasticsearch/audit/test-access.log@{offset}": "Elastic calls what was granted in the text form a failure"
        for offset in (306, 1210, 1626)
    },
    **{
        f"elasticsearch/audit/test-audit.log@{offset}": "Elastic calls a change of the configuration a failure"
        for offset in (2509, 2770, 3029, 3273, 3592)
    },
}

HITS = dict.fromkeys(
    (f"elasticsearch/slowlog/test.log@{offset}" for offset in (0, 278, 545, 2012)),
    "the number of hits is a text everywhere, for newer versions write '10000+ hits'; groups are one text, too",
)

ROWS: tuple[Row, ...] = (
    # Elastic's pattern for virtual hosts has no name for the client's text
    Row("apache/access", "apache-access", cases="test-vhost", env=DASHES, more=("source.address",)),
    Row("apache/access", "apache-access", env=DASHES),
    Row("apache/error", "apache-error", env=ZONE),
    # a request line that is not a request: Elastic's module drops it
    Row("nginx/access", "nginx-access", more=("http.request.line",)),
    # what the message says about client and request, which Elastic's module leaves in the text
    Row("nginx/error", "nginx-error", env=ZONE, more=("source", "http", "url", "nginx.error.server", "nginx.upstream")),
    Row("nginx/ingress_controller", "nginx-ingress"),
    Row("traefik/access", "traefik", env=DASHES),
    # the host that wrote the line, and headers where only requests' are captured: Elastic's module drops them
    Row("haproxy/log", "haproxy", no_time=True, more=("host.hostname", "haproxy.http.request.captured_headers")),
    # paths that are not URI's (braces, backslashes): Elastic's module then gives no parts of them
    Row(
        "iis/access",
        "iis",
        more=("url.path", "url.extension"),
        exceptions={"iis/access/test-iis-7.5.log@244": "addresses that a mail program made links of"},
    ),
    Row(
        "iis/error",
        "iis-error",
        more=("url.path", "url.extension"),
        exceptions={"iis/error/iis_error_url.log@89": "Elastic calls the slash after the last dot an extension"},
    ),
    Row(
        "kafka/log",
        "kafka-server",
        env=ZONE,
        more=("error.stack_trace",),
        exceptions=dict.fromkeys(
            ("kafka/log/server-2.0.0.log@7049", "kafka/log/server-2.0.0.log@8948"),
            "Elastic takes brackets inside the message for the component",
        ),
    ),
    Row("logstash/log", "logstash", env=ZONE, objects={"logstash.log.log_event": "logstash.log.log_event"}),
    Row("logstash/slowlog", "logstash-slowlog", env=ZONE, more=("message",), objects=PARAMS),
    Row("kibana/log", "kibana", renamed={"kibana.log.type": "kibana.log.meta.type"}, objects={"kibana_rest": "kibana.log.meta"}),
    Row("kibana/audit", "kibana", more=("log.level", "log.logger"), left_out=("kibana_rest",)),
    Row("icinga/debug", "icinga", renamed={"icinga.facility": "icinga.debug.facility"}),
    Row("icinga/main", "icinga", renamed={"icinga.facility": "icinga.main.facility"}),
    Row("icinga/startup", "icinga", no_time=True, renamed={"icinga.facility": "icinga.startup.facility"}),
    # members of JSON logs that no field is made of
    Row("elasticsearch/server", "elasticsearch-server", env=ZONE, more=("elasticsearch_rest",)),
    Row(
        "elasticsearch/deprecation",
        "elasticsearch-server",
        env=ZONE,
        more=("elasticsearch_rest", "elasticsearch.event", "event.code"),
    ),
    Row(  # of JSON before 7.4 Elastic's module reads no further than a number of hits with its unit
        "elasticsearch/slowlog",
        "elasticsearch-slowlog",
        "es_index_*slowlog-json",
        env=ZONE,
        more=("elasticsearch.slowlog",),
    ),
    Row(
        "elasticsearch/slowlog", "elasticsearch-slowlog", env=ZONE, texts=("elasticsearch.slowlog.total_shards",), exceptions=HITS
    ),
    Row("elasticsearch/gc", "elasticsearch-gc", env=ZONE),
    Row("elasticsearch/audit", "elasticsearch-audit", env=ZONE, exceptions=OUTCOMES),
)
