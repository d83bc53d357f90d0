"""All parsers, for the catalogue. Whoever needs one imports its module: a worker has no use for the others."""

from parsers.cef.parser import Cef
from parsers.csv.parser import Csv
from parsers.decode.parser import Decode
from parsers.dissect.parser import Dissect
from parsers.geoip.parser import Geoip
from parsers.grok.parser import Grok
from parsers.json.parser import Json
from parsers.key_value.parser import KeyValue
from parsers.leef.parser import Leef
from parsers.regex import Regex
from parsers.syslog.parser import Syslog
from parsers.timestamp.parser import Timestamp
from parsers.url.parser import Url
from parsers.user_agent import UserAgent
from parsers.w3c.parser import W3c
from parsers.weblog.parser import Weblog
from parsers.xml.parser import Xml

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
