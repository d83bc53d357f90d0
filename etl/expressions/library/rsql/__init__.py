"""The functions of RocketMQ Streams' scripts."""
