"""SQL scripts → what a pipeline file says, with the location of each part in the script."""
