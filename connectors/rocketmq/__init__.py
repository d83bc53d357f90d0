"""RocketMQ by its remoting protocol: source and sink, without a client library, for none that is released can pull by offset."""
