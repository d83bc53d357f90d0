"""The functions of Flink SQL with Flink's meaning."""
