"""MQTT 3.1.1 and 5.0 (OASIS standards): the protocol, the source and the sink."""
