"""All sources and sinks, for the catalogue. Whoever needs one imports its module."""

from connectors.console import ConsoleSink
from connectors.discard import DiscardSink
from connectors.file.sink import FileSink
from connectors.file.source import FileSource
from connectors.generate import GenerateSource
from connectors.spark_frames import SparkSource
from connectors.stdin import StdinSource
from connectors.syslog_receiver.source import SyslogSource

COMPONENTS = (FileSource, StdinSource, SyslogSource, GenerateSource, SparkSource, FileSink, ConsoleSink, DiscardSink)
