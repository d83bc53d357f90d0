"""What several connectors use, and no component.

`json_lines` writes events as JSON lines; `path_template` and `date_patterns` are
for names with ``{field}`` and ``{yyyy-MM-dd}``; `tls` and `deadline` are for connections to servers; `broker_options` checks
options of message brokers; `lines` cuts bytes into lines and events; `journal` stores received events on disk.
"""
