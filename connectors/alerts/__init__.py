"""What the sinks for people share (`chat`, `email`): templates, digests, and the limit of messages, which the driver counts."""
