"""HTTP: the sink for webhooks, and the client of every connector that uses HTTP."""
