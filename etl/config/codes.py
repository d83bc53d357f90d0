"""The meaning of every problem code, for the reference."""

from collections.abc import Mapping

_FILE = {
    "unreadable-file": "The file cannot be opened: it does not exist, is a folder, or may not be read.",
    "file-too-large": "A pipeline file has at most 1 MiB, 50,000 values once its aliases are expanded, and 60 levels.",
    "not-utf8": "Pipeline files are UTF-8. The position is that of the first byte that is not.",
    "yaml-syntax": "The text is not YAML, or YAML reads it in another way than its author meant: a comma inside `{…}` and ` #` "
    "end a text that is not in quotes. The position is where to change something, such as the bracket that is not closed.",
    "several-documents": "A line `---` begins a second document; a pipeline file holds one.",
    "not-a-pipeline": "The file is empty, or a list or text. A pipeline is a mapping that begins with `source:` or `sources:`.",
    "duplicate-key": "A mapping has a key twice. YAML readers keep one of them silently; remove the other. "
    "All values are checked.",
    "bad-key": "A key is a list or mapping, or `<<` merges something that is not a mapping.",
    "unknown-tag": "A value has a tag such as `!ref`. Pipeline files have no tags.",
    "undefined-env": "`${NAME}` names a variable that the environment lacks. Set it, or give a default: `${NAME:-value}`.",
    "secret-in-file": "The file contains a password, token or key, which all its readers see. Write `${NAME}`, and set the "
    "variable NAME in the environment.",
    "bad-env": "`${` is not followed by the name of a variable and `}`: write `$${` for the characters `${`. Or the value of the "
    "variable is not UTF-8.",
    "unexpanded-variable": "A path begins with `$NAME` or `%NAME%`, as shells write variables: write `${NAME}`. `~` is the home "
    "folder of who runs the pipeline.",
    "bad-override": "`--set` takes `path=value`, where the path leads to an option of a component that the file has.",
}

_SCRIPT = {
    "sql-syntax": "The script is not valid SQL at the position, or has a statement that scripts cannot have.",
    "corrected-sql": "A script has typographic quotes, full-width characters, `//` before a comment or a blank in a name. A "
    "warning: it is read as the message says.",
    "no-effect": "A statement, call or option of a script changes nothing here; the message says why. A warning.",
    "unsupported-sql": "The statement is valid SQL that is not supported; the hint names another way.",
    "unknown-name": "The script declares no table or view of this name before the statement that uses it.",
    "ambiguous-column": "Several tables in FROM have a column of this name: write the table before it.",
    "struct-column": "A column of type ROW is used where a single value is needed.",
    "wrong-columns": "A query has another number of columns than the table that it is inserted into; columns are matched by "
    "position.",
    "wrong-arguments": "A function is called with another number of arguments than it has.",
    "bad-interval": "An interval is not a constant such as `INTERVAL '10' SECOND`.",
    "bad-type": "The type of a column is unknown or not supported.",
    "missing-watermark": "A query uses the event time of a table that declares no WATERMARK for it. A warning for windows, which "
    "then accept events that are up to 10 seconds late.",
    "unbounded-state": "The join has no bound in time: the columns used of every row of both sides stay in its state for ever, "
    "which grows with the input. A warning: that is right where one side has few rows.",
    "changing-results": "Results replace or remove earlier ones, and the sink or step would treat each as a new event.",
    "missing-sink": "A script has no statement that writes: `INSERT INTO table SELECT …`, or a query alone, which prints its "
    "rows. A warning for a script that only declares tables, views or functions.",
}

_SHAPE = {
    "mixed-forms": "`source`, `steps`, `sink` are the short form, `sources`, `streams`, `sinks` the long one, with "
    "names; a file uses one.",
    "missing-source": "A pipeline needs `source` or `sources`.",
    "missing-option": "A required option is not given. The position is that of the mapping that lacks it.",
    "unknown-option": "The component has no such option; the hint names the nearest, or all.",
    "unknown-type": "There is no installed component of this `type`, or it is of another kind, such as a sink among the steps.",
    "bad-name": "The name of a source, stream or sink begins with a letter and has letters, digits, `_` and `-`.",
    "duplicate-name": "A source and a stream have the same name, and `from` could mean either.",
    "type": "The value is of another type than the option. `yes`, `no`, `on` and `off` are text in YAML 1.2.",
    "enum": "The value is none of those the option takes.",
    "minimum": "The number is less than the option's minimum.",
    "maximum": "The number is more than the option's maximum.",
    "exclusive-minimum": "The number must be more than the bound, and is not.",
    "exclusive-maximum": "The number must be less than the bound, and is not.",
    "multiple-of": "The number is not a multiple of what the option asks for.",
    "min-length": "The text is too short; most often it is empty.",
    "max-length": "The text is too long.",
    "min-items": "The list has too few items.",
    "max-items": "The list has too many items.",
    "min-properties": "The mapping has too few keys.",
    "max-properties": "The mapping has too many keys.",
    "unique-items": "The list holds the same item twice.",
    "pattern": "The text is not written as the option asks, such as a field name with a blank.",
    "any-of": "The value has none of the forms the option takes.",
    "one-of": "The value has none of the forms the option takes, or several at once.",
    "property-names": "A key of the mapping is not written as the option asks.",
    "invalid-value": "The option's own type does not take the value, such as a duration without a unit; the message says why.",
}

_NETWORK = {
    "unknown-from": "`from` names no source or stream of this file.",
    "cycle": "Streams read each other in a cycle: events would never leave it.",
    "unused-source": "No sink gets the events of the source, so it is not read. A warning.",
    "unused-stream": "No sink gets the events of the stream, so it is not computed. A warning.",
    "join-sides": "A `join` is not the first step of its stream, or its stream does not read two inputs, which are its sides.",
    "shared-target": "Two sinks, of one pipeline or of two in one command, write to the same target, or one into the folder of "
    "the other: they would damage each other's output.",
    "reads-own-output": "A sink writes what a source of the same pipeline reads, or pipelines of one command read each other "
    "in a cycle: events are processed again and again. An error for files, a warning for topics, tables and indexes, where a "
    "filter may end the loop.",
    "shared-input": "Two sources read what only one can, such as standard input or an address to listen at.",
    "same-pipeline-name": "Two pipeline files have the same name, and so the same state folder; one command does not run both. A "
    "warning.",
    "union-type-conflict": "Inputs of a union have a field of the same name with types that have no common type.",
    "check-failed": "The check of a component failed with an exception. This is a defect of the component, not of the file.",
}

_FIELDS = {
    "unknown-field": "A field that the component names does not reach it; the hint names the nearest.",
    "wrong-type": "A field or expression has another type than its use asks for.",
    "field-conflict": "A field would be a value and a struct at once, such as `source` beside `source.ip`, or is given twice.",
    "name-conflict": "Two results would have the same name.",
    "bad-expression": "The text is not a Spark SQL expression; the position is where parsing fails.",
    "unknown-function": "The expression calls a function that neither Spark nor Sluice has.",
    "arrow-only": "An expression calls a function that only Arrow has, and has a part that only Spark computes. Compute one "
    "of the two as a field of its own, in an earlier step.",
    "bad-pattern": "A regular expression or grok pattern cannot be compiled, or names an unknown pattern; or the pattern of a "
    "sequence is not written as one.",
    "unknown-event": "A pattern, or a reference to one of its events, names an event that is not declared or not taken.",
    "bad-comparison": "A condition of a sequence does not compare an event with one that is earlier in the pattern.",
    "unused-event": "The pattern of a sequence does not name an event that is declared. A warning.",
    "needs-spark": "A condition of a step with state has a part that only Spark computes; or the sources of such a step "
    "cannot be read together: Spark reads some of them and Sluice others, or one is read once (streaming: false) and others as a "
    "stream.",
    "bad-function": "A function of your own cannot be used: its file or module is not there, the file has no such function, or "
    "an annotation says no type that events have. The position is that in the Python file, where it is about the code.",
    "hides-function": "A function of your own has the name of a built-in one, and is called instead of it in this file.",
    "unknown-table": "A step names a table that `tables` does not declare, or `--connect` found no table of this name.",
    "wrong-key": "A look-up has another number of fields than the key of its table has columns, or than its match takes.",
    "missing-key": "A row of an inline table leaves out its key.",
    "no-table-file": "The file of a table is not there. A run needs it when it starts. A warning.",
    "unclear-format": "The name of a file does not tell its format.",
    "useless-option": "An option has no effect beside the others.",
    "unknown-column": "A column is named that the table does not have.",
    "unknown-pattern": "`%{NAME}` names no pattern of the chosen set nor of `pattern_definitions`.",
    "cyclic-pattern": "A grok pattern uses itself, directly or through others.",
    "bad-regex": "A regular expression inside an expression cannot be compiled.",
    "bad-network": "The text is not an IP network such as `10.0.0.0/8`.",
    "not-boolean": "A condition must be true or false, and the expression is of another type.",
    "glob-in-like": "A pattern of LIKE has `*`, a letter there, and neither `%` nor `_`, which stand for any. A warning.",
    "null-comparison": "A comparison with null is null and never true: `x is null` is meant. A warning.",
    "text-not-field": "A text in quotes is compared with a text, and has the name of a field: quotes make no field. A warning.",
    "bad-sql": "The text is not one SELECT from `events`.",
    "stateful-sql": "The query groups, joins or sorts, which a stream's single events cannot; `window` does that.",
    "unnamed-column": "A column of the query has no name: add `AS` and one.",
    "no-fields": "The step would leave events without any field.",
    "reserved-field": "Names with a leading `_` that identify an event cannot be given.",
    "slow-pattern": "The pattern needs back-references, look-around of several characters or very many counted repeats: another "
    "engine than the scanner runs it, or some texts, many times slower. A warning.",
}

_COMPONENTS = {
    "already-timestamp": "The field is a timestamp already; the step has nothing to do. A warning.",
    "bad-aggregate": "An aggregate is not written as `function(field)`, or its argument does not fit.",
    "unknown-aggregate": "There is no such aggregate function.",
    "bad-window": "The sizes of a window contradict each other, such as a slide longer than the window.",
    "bad-emit": "The triggers of a window's results contradict each other, or one of them never fires.",
    "bad-path": "The path of a file or folder is not one that the component can use.",
    "not-local": "The path is a URI, and the component reads or writes files of this machine only.",
    "login-in-path": "A login in the address of a store would be stored with the offsets; it belongs in the environment.",
    "notifications-unused": "Notifications by a queue of SQS come from S3 only; other stores and folders are listed.",
    "no-bucket": "The address of objects begins with a bucket, without wildcards, and names objects in it.",
    "unknown-scheme": "The address of a table or its catalog has no scheme, or one that is not supported.",
    "bad-table-name": "A table of Iceberg is named by its namespace and its name, as in `logs.events`.",
    "unsupported-type": "A table format has no type for a field, or the field's type is not known before the run.",
    "bad-column-name": "A field's name cannot be that of a column of a table.",
    "unsupported-partition": "A table cannot be partitioned by this field, or not in this way.",
    "table-mismatch": "`--connect` has found a table that cannot store these events; a run would end before the first event.",
    "not-absolute": "A path after `file://` begins with `/`: there is no current folder that all hosts share.",
    "missing-path": "The component needs a path.",
    "path-is-folder": "The path names a folder that exists, where a file is meant; end it in `/` for a folder of parts.",
    "folder-is-file": "A folder in the path is a file that exists: choose another path, or move the file away.",
    "no-literal-prefix": "A path with `{…}` parts must begin with a folder that does not depend on events.",
    "parquet-single-file": "Parquet files cannot grow: give a folder of parts.",
    "cannot-append": "The format or compression does not allow to append to one file.",
    "extension-mismatch": "The file's extension says something else than the options. A warning.",
    "bad-template": "A template has a part that is not known.",
    "bad-time-format": "A time format has a part that is not known.",
    "unknown-timezone": "There is no time zone of this name.",
    "unknown-charset": "Python has no charset of this name, or it is one in which line ends cannot be found.",
    "unknown-format": "Spark has no data source of this name, or it is not supported here.",
    "missing-fields": "The source's fields are not known before the run: declare them.",
    "not-bounded": "The option needs a source that ends, and this one does not.",
    "not-streaming": "Spark cannot read this format as a stream.",
    "keep-conflict": "Options about what is kept contradict each other.",
    "keep-needs-target": "Keeping the text needs another field for the result.",
    "unused-option": "An option has no effect beside the others. A warning.",
    "unreadable-type": "The format cannot be read into this type.",
    "weights-mismatch": "The number of weights is not that of the choices.",
    "no-priority": "A default priority is for lines without a priority, which strict parsing and RFC 5424 do not allow.",
    "no-structured-data": "Only lines of RFC 5424 have structured data, and `format` says that there are none.",
    "no-field": "A format, header or list names no field that an event would get.",
    "too-many-columns": "A header has more columns than the parser takes.",
    "bad-delimiter": "The text cannot stand between values: it is a quote, a line end, or what the format needs itself.",
    "no-database": "`geoip` looks addresses up in database files that you have; name one.",
    "bad-port": "The number is not a port; ports are 0 to 65535.",
    "bad-url": "The text is not a URL that the component can connect to; the hint shows its form.",
    "duplicate-place": "An address to listen on is listed twice.",
    "no-certificate": "An address with `tls://` needs `tls: {certificate: …}`, and so does a private key.",
    "tls-unused": "`tls` is set, and no address to listen on begins with `tls://`, or no URL with `https://`. A warning.",
    "url-with-password": "Credentials in a URL would show in messages and logs; give `user` and `password`.",
    "missing-user": "A password is given without a user.",
    "several-logins": "Only one way to log in is used: a user, an API key or a token.",
    "bad-header": "A header is empty, has characters that no header takes, or is one that the sink writes itself.",
    "status-conflict": "A status is listed both as temporary and as a reason to stop.",
    "batch-conflict": "`format: object` puts one event into a request, and `batch.max_events` allows more.",
    "changes-conflict": "`changes: debezium` writes JSON lines, and `format` asks for another format.",
    "bad-reference": "A text such as `%{IP:source ip}` looks like a reference to a grok pattern, and is not a valid one; "
    "or a text is not a field of a sequence's event.",
    "bad-index-template": "The file of `template` is missing, too large or no index template in JSON; the message says which.",
    "bad-index": "The name of an index has lower-case letters only, no blanks, not some other characters, and at most 255 "
    "bytes; the message says what is wrong.",
    "missing-id": "`action: update` needs `id`: fields that say which document is meant.",
    "data-stream-action": "A data stream takes documents with `action: create` only.",
    "bad-partition": "Start offsets are given by topic and partition, and the topic is one of those that are read.",
    "bad-topic": "The name of a topic is not valid: in Kafka it has 1 to 249 letters, digits, dots, underscores and dashes; in "
    "MQTT the wildcards + and # are whole levels, and only in filters.",
    "too-long": "A text is longer than the protocol allows; the message says how long it may be.",
    "duplicate-topic": "A topic is listed twice.",
    "no-topics": "A source reads topics by name or by pattern: one of them is needed, and not both.",
    "no-files": "No file matches the path; the message says what is there instead. A run that follows waits for files, and one "
    "with `--once` ends without an event and warns.",
    "missing-input": "The file that a path without wildcards names is not there; the message says what is there instead. A run "
    "that follows waits for it, and the first run with `--once` fails.",
    "unpublished-stream": "No pipeline among the checked files, or in the same folder, publishes the stream that a source reads, "
    "and there is none on this machine. A warning: the source waits for it.",
    "unpublished-field": "The publisher of a stream writes no such field, so that it is always null, or writes it with a type "
    "that is never cast to the declared one. A warning.",
    "unbounded-paths": "A field in the path of a `file` sink makes a file or folder for each of its values, and "
    "`max_paths` does not say how many there may be.",
    "unbounded-indices": "A field in the index of an `elasticsearch` sink makes an index for each of its values, and "
    "`max_indices` does not say how many there may be.",
    "skipped-folder": "`--connect` found folders under the path that cannot be listed, or links to folders that are searched "
    "under another name. Files after the first are not read; files after the second are read once.",
    "unknown-topic": "`--connect` did not find the topic that is named.",
    "missing-password": "A user is given without a password.",
    "filter-conflict": "A broker of RocketMQ chooses messages by tags or by a condition, not by both.",
    "bad-tags": "A tag expression of RocketMQ is `*`, or tags with `||` between them.",
    "bad-queue": "A queue of RocketMQ is named broker/topic/number, and its topic is one of those that are read.",
    "batch-too-large": "`batch.max_bytes` is more than the system takes with one request.",
    "duplicate-field": "Two options of a component fill the same field.",
    "unknown-database": "The URL names no database that is known, or is not written as URLs of databases are.",
    "no-key": "`mode: upsert` and `replace` need `key`: fields that say which rows are the same.",
    "duplicate-column": "Two fields go to one column of a table.",
    "one-of-two": "Of two options exactly one is needed, such as a table or a query.",
    "no-id": "`follow: true` needs `id`: a field that separates new rows from those that were read.",
    "reserved-property": "A property of the client is set directly that has an option of its own, or that delivery guarantees "
    "depend on.",
    "no-correlations": "`correlate` found no correlation rule that can run; its other findings say what is wrong with them.",
    "no-rules": "`rules` needs files of rules, or rules themselves.",
    "no-rule-files": "A file or folder of rules is not there, or holds no rule, and events go on without it. A warning.",
    "bad-rule": "A rule cannot be loaded. It stands at the key in its own file, as a warning, for the other rules run; a rule or "
    "correlation that stands in the pipeline itself is an error.",
    "bad-taxonomy": "The file that maps Sigma's names to the stream's cannot be read, or is written in another way.",
    "duplicate-rule": "Two rules of a step have the same id, or the same name where they have none.",
    "rule-needs-spark": "A rule's condition has a part that only Spark computes, and rules run where events are read.",
    "line-too-long": "A line is longer than `max_line_bytes`; at run time it goes to the dead letters.",
}

_CONNECTIONS = {
    "unreachable": "`--connect` did not reach the system: the message names host, port and cause. A run would wait for it.",
    "no-answer": "The system did not answer `--connect` within some seconds.",
    "not-ready": "`--connect` reached the system, which does not have or allow what the options name.",
    "unknown-index": "The index does not exist. For a sink a warning: the server makes it with the first document, where it may.",
    "unknown-pipeline": "The server has no ingest pipeline of this name, or does not say whether it has one (a warning).",
    "data-stream": "`data_stream` says that the index is a data stream, and on the server it is not, or the reverse. A warning.",
    "index-mismatch": "The index has a field with another type than its events: documents may be refused. A warning.",
    "unknown-page": "The server has nothing at the path of the URL, or does not say so without an event. A warning.",
    "column-type": "A column is of another type than its field: values that do not fit go to the dead letters. A warning.",
    "no-unique-index": "The mode needs a unique index on the columns of `key`, and the table has none.",
    "no-transactions": "The table's engine has no transactions, which exactly once needs; MyISAM is such an engine.",
    "no-deduplication": "The table of ClickHouse does not recognise blocks that are inserted again, which exactly once needs.",
    "probe-failed": "The probe of a component failed with an exception. This is a defect of the component, not of the file.",
}

_TESTS = {
    "unknown-place": "A test names a source, stream or sink that the pipeline does not have.",
    "ambiguous-test": "A test gives lines or events without a name, and the pipeline has several sources or sinks.",
    "missing-file": "A test reads a file that is not there; its path is relative to the file that names it.",
}

PROBLEMS: Mapping[str, str] = {**_FILE, **_SCRIPT, **_SHAPE, **_NETWORK, **_FIELDS, **_COMPONENTS, **_CONNECTIONS, **_TESTS}
