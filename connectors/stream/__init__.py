"""Streams between pipelines: the sink ``stream`` publishes events to a journal on disk, and sources ``stream`` subscribe to it.

::

    FOLDER/NAME/lock                     locked by the run that publishes
    FOLDER/NAME/stream.json              the committed state of the journal (`index`), replaced as a whole by each commit
    FOLDER/NAME/<position>.segment       records of events, each an Arrow stream (`connectors.shared.journal`)
    FOLDER/NAME/subscribers/<id>.json    how far a subscriber has delivered (`subscribers`)
"""
