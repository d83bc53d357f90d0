"""The `console` sink."""
