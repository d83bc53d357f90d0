"""RocketMQ source and sink on the remoting protocol, without a client library: no released one can pull by offset."""
