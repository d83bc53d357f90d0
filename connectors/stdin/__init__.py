"""The `stdin` source."""
