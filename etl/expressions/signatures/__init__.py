"""The signatures of Spark's functions and operators: `probe` asks Spark for them, `lookup` reads them."""
