"""The files of the `file` source: which there are, which were read before under another name, and how far they can be read."""
