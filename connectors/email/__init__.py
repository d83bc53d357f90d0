"""Mails by SMTP."""
