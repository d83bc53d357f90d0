"""The `lake` sink: tables of Delta Lake and Apache Iceberg."""
