"""The languages of RocketMQ Streams, filter expressions and scripts → expressions in Spark SQL and steps."""
