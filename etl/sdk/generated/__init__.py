"""Methods of the builder, generated from the component models."""
