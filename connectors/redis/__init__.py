"""Redis and Valkey: the source of streams, and the sink of streams, lists, strings, hashes and channels."""
