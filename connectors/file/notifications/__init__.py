"""Notifications about new objects of S3, which a queue of SQS delivers: they find objects sooner and cheaper than listings."""
