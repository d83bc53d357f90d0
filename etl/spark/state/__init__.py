"""What a pipeline keeps between runs: its state folder, its checkpoints, and which pipeline they belong to."""
