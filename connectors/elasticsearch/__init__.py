"""Elasticsearch and OpenSearch, over what their APIs have in common."""
