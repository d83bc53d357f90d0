"""Options of the step `window`."""
