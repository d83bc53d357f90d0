"""Options of components: names and values that are meant, what is wrong with them, stand-ins for wrong ones."""
