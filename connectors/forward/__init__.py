"""The `forward` source: the protocol of Fluentd and Fluent Bit."""
