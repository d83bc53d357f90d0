"""Elasticsearch and OpenSearch, with the part of the API that both have."""
