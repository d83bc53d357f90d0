"""The `beats` source: Lumberjack 2, as Beats and Logstash send it."""
