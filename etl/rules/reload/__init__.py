"""Rules and taxonomies that change while a run goes on; a bad new one does not replace a good one."""
