"""All parsers, for the catalogue."""

from etl.api import Entry

COMPONENTS = (
    Entry("step", "grok", "parsers.grok.parser:Grok"),
    Entry("step", "regex", "parsers.regex:Regex"),
    Entry("step", "json", "parsers.json.parser:Json"),
    Entry("step", "timestamp", "parsers.timestamp.parser:Timestamp"),
    Entry("step", "syslog", "parsers.syslog.parser:Syslog"),
    Entry("step", "decode", "parsers.decode.parser:Decode"),
    Entry("step", "geoip", "parsers.geoip.parser:Geoip"),
    Entry("step", "url", "parsers.url.parser:Url"),
    Entry("step", "user_agent", "parsers.user_agent:UserAgent"),
    Entry("step", "xml", "parsers.xml.parser:Xml"),
    Entry("step", "csv", "parsers.csv.parser:Csv"),
    Entry("step", "dissect", "parsers.dissect.parser:Dissect"),
    Entry("step", "w3c", "parsers.w3c.parser:W3c"),
    Entry("step", "weblog", "parsers.weblog.parser:Weblog"),
    Entry("step", "key_value", "parsers.key_value.parser:KeyValue"),
    Entry("step", "cef", "parsers.cef.parser:Cef"),
    Entry("step", "leef", "parsers.leef.parser:Leef"),
)
