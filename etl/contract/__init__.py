"""The contract between the engine and components, in parts; `etl.api` exports all of it."""
