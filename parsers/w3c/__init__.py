"""W3C extended log files."""
