"""The parts of the contract between the engine and components, which `etl.api` hands to components as one."""
