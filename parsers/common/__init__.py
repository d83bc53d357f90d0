"""What several parsers share."""
