"""Messages as brokers store them, decoded into columns."""
