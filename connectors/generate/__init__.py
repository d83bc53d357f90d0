"""The `generate` source."""
