"""A server with many pipelines: a folder of pipeline files, their runs in one Spark session, and an HTTP API over both.

`PipelineServer` makes what runs agree with what the folder holds and with what its clients want. It knows runs only as the
protocol `Engine`, so that it works without Spark in tests. `create_app` is the HTTP API.
"""
