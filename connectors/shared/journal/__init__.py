"""An append-only log on disk: length-prefixed records with checksums. The offset is the byte position.

A receiver in the driver appends (`writer`), a source reads by position from any process (`reader`), and delivered data is
deleted file by file (`segments`). The receiver defines the content of records.
"""
