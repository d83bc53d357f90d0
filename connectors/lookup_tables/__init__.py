"""Tables that steps look up."""
