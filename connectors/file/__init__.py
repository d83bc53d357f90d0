"""The `file` source and sink, and the encodings they share."""
