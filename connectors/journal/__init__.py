"""An append-only log on disk of length-prefixed, checksummed records whose byte position is the offset.

A receiver in the driver appends (`writer`), a source reads by position from any process (`reader`), and what is
delivered is deleted file by file (`segments`). What a record holds is its receiver's business.
"""
