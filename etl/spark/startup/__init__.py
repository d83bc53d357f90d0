"""Starts Spark's JVM and Python processes with less CPU time and memory than Spark needs by itself.

`fast_start` is its only face, and has the switch that turns all of it off. `archive` maps Spark's classes into the JVM.
`interpreter`, `launcher`, `zygote` and `forked_process` replace new Python processes by forks of one that has loaded all modules.
`daemon` and `worker_preload` load kernels before workers are forked.
"""
