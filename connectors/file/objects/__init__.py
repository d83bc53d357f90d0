"""Objects of a store such as S3 as files of the `file` source: each is written once, and read once as a whole."""
