"""The receiver of the source `http`: an HTTP server in the driver that stores events in a journal."""
