"""Sources and sinks, one package or module a system."""
