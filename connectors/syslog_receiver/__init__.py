"""Receiving syslog: sockets, framing, and the source that reads what came from the journal."""
