"""Formats, one module a format; ``patterns`` holds the grok library."""

from parsers.cef import Cef
from parsers.csv import Csv
from parsers.decode import Decode
from parsers.dissect import Dissect
from parsers.geoip import Geoip
from parsers.grok import Grok
from parsers.json import Json
from parsers.key_value import KeyValue
from parsers.leef import Leef
from parsers.regex import Regex
from parsers.syslog import Syslog
from parsers.timestamp import Timestamp
from parsers.url import Url
from parsers.user_agent import UserAgent
from parsers.w3c import W3c
from parsers.weblog import Weblog
from parsers.xml import Xml

COMPONENTS = (
    Grok,
    Regex,
    Json,
    Timestamp,
    Syslog,
    Decode,
    Geoip,
    Url,
    UserAgent,
    Xml,
    Csv,
    Dissect,
    W3c,
    Weblog,
    KeyValue,
    Cef,
    Leef,
)
