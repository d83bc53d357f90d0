"""RocketMQ's remoting protocol: frames, connections, name servers and brokers."""
