"""Syslog: RFC 5424, RFC 3164 and what is sent in their names."""
