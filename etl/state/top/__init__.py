"""The step `top`: the best events of each key."""
