"""HTTP: the sink for webhooks, and the client of every connector whose system speaks it."""
