"""Configurations of Telegraf that read logs by grok → pipelines."""
