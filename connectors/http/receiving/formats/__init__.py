"""What agents send: each module accepts the requests of one protocol, and reads its events from the journal."""
