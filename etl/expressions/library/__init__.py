"""The functions that expressions have beside Spark's: of Flink, of RocketMQ Streams' scripts, and our own."""
