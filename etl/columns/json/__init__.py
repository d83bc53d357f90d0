"""JSON from columns and columns from JSON: compiled kernels over texts as views."""
