"""The operators of joins: events of two sides in one state, and the pairs of them."""
