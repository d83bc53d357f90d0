"""Receives syslog: sockets, framing, and the source that reads received messages from the journal."""
