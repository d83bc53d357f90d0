"""Reading rules and taxonomies again while a run goes on; a bad new version leaves the last good one in use."""
