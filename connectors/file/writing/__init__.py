"""The files of the `file` sink: staged in tasks, and appended to or published as parts by the commit in the driver."""
