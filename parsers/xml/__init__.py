"""XML documents."""
