"""What receivers that listen on sockets share: which networks may send, TLS, limits."""
