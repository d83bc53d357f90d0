"""CEF: ArcSight's Common Event Format."""
