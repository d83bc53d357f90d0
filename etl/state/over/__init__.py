"""The step `over`: running values of a key beside each of its events."""
