"""What the viewers of a server look at, read once for all of them."""
