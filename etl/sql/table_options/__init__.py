"""Options of the tables in scripts: of this tool, of Flink and of rsqldb."""
