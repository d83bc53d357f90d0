"""Ingest pipelines of Elasticsearch and OpenSearch → pipelines."""
