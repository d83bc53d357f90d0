"""OpenTelemetry: events as log records, sent over OTLP."""
