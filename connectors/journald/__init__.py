"""The `journald` source: journal files of systemd, read by their published format without systemd's library."""
