"""Windows over event time as operators of the state lane."""
