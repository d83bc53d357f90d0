"""The end of a micro-batch in the driver: its commit to each sink, and the delivery of spools."""
