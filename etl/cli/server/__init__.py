"""The server with many pipelines, and the commands of its clients, which also find runs on this machine."""
