"""The `file` source and sink.

`reading` finds, follows and identifies the files of the source; `writing` stages, appends and publishes those of the sink.
"""
