"""Dead letters that a run has written: read, settled (replayed or dropped), and sent through their pipeline again."""
