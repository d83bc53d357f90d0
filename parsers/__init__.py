"""Formats, one module a format; ``patterns`` holds the grok library."""

from parsers.grok import Grok
from parsers.json import Json
from parsers.regex import Regex
from parsers.timestamp import Timestamp

COMPONENTS = (Grok, Regex, Json, Timestamp)
