"""What every code of a problem means, for the reference."""

from collections.abc import Mapping

_FILE = {
    "unreadable-file": "The file cannot be opened: it does not exist, is a folder, or may not be read.",
    "file-too-large": "A pipeline file has at most 1 MiB, 50,000 values once its aliases are expanded, and 60 levels.",
    "not-utf8": "Pipeline files are UTF-8. The position is that of the first byte that is not.",
    "yaml-syntax": "The text is not YAML. Usual are a tab in the indent, and an unquoted `: ` or `${NAME}` inside `{…}`.",
    "several-documents": "A line `---` begins a second document; a pipeline file holds one.",
    "not-a-pipeline": "The file is empty, or a list or text. A pipeline is a mapping that begins with `source:` or `sources:`.",
    "duplicate-key": "A key stands twice in one mapping. YAML readers keep one of them silently; remove the other.",
    "bad-key": "A key is a list or mapping, or `<<` merges something that is no mapping.",
    "unknown-tag": "A tag such as `!ref` stands in front of a value. Pipelines know no tags.",
    "undefined-env": "`${NAME}` names a variable that the environment lacks. Set it, or give a default: `${NAME:-value}`.",
    "bad-env": "`${` begins no name. Write `$${` for the characters themselves.",
    "bad-override": "`--set` takes `path=value`, where the path leads to an option of a component that the file has.",
}

_SHAPE = {
    "mixed-forms": "`source`, `steps`, `sink` are the short form, `sources`, `streams`, `sinks` the long one; a file uses one.",
    "missing-source": "A pipeline reads something: give it `source` or `sources`.",
    "missing-option": "A required option is not given. The position is that of the mapping that lacks it.",
    "unknown-option": "The component has no such option; the hint names the nearest, or all.",
    "unknown-type": "`type` names no installed component of this kind, or one of another kind.",
    "bad-name": "A name of a source, stream or sink is a letter, then letters, digits, `_` and `-`.",
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
    "cycle": "Streams feed each other in a circle; events would go round for ever.",
    "unused-source": "No sink is reached by the source: it would not be read. A warning.",
    "unused-stream": "No sink is reached by the stream: it would not be computed. A warning.",
    "shared-target": "Two sinks write to the same place and would spoil each other's output.",
    "union-type-conflict": "Inputs of a union have a field of the same name with types that do not go together.",
    "check-failed": "A component's own check broke down. This is a defect of the component, not of the file.",
}

_FIELDS = {
    "unknown-field": "A field that the component names does not reach it; the hint names the nearest.",
    "wrong-type": "A field or expression has another type than its use asks for.",
    "field-conflict": "A field would be a value and a struct at once, such as `source` beside `source.ip`, or is given twice.",
    "name-conflict": "Two results would have the same name.",
    "bad-expression": "The text is no Spark SQL expression; the position is that of the place where it goes wrong.",
    "unknown-function": "The expression calls a function that neither Spark nor Sluice has.",
    "bad-pattern": "A regular expression or grok pattern cannot be compiled, or names an unknown pattern.",
    "unknown-pattern": "`%{NAME}` names no pattern of the chosen set nor of `pattern_definitions`.",
    "slow-pattern": "The pattern needs look-around or back-references and runs outside RE2, many times slower. A warning.",
}

_COMPONENTS = {
    "already-timestamp": "The field is a timestamp already; the step has nothing to do. A warning.",
    "bad-aggregate": "An aggregate is not written as `function(field)`, or its argument does not fit.",
    "unknown-aggregate": "There is no such aggregate function.",
    "bad-window": "The sizes of a window do not go together, such as a slide longer than the window.",
    "session-on-change": "Spark does not give out changes of session windows: use `emit: on_close`.",
    "bad-path": "The path of a file or folder is not one that the component can use.",
    "missing-path": "The component needs a path.",
    "path-is-folder": "The path names a folder that exists, where a file is meant; end it in `/` for a folder of parts.",
    "no-literal-prefix": "A path with `{…}` parts must begin with a folder that does not depend on events.",
    "parquet-single-file": "Parquet files cannot grow: give a folder of parts.",
    "cannot-append": "The format or compression does not allow to append to one file.",
    "extension-mismatch": "The file's extension says something else than the options. A warning.",
    "bad-template": "A template has a part that is not known.",
    "bad-time-format": "A time format has a part that is not known.",
    "unknown-timezone": "There is no time zone of this name.",
    "unknown-charset": "Python knows no charset of this name, or one that lines cannot be cut in.",
    "unknown-format": "Spark knows no data source of this name, or it may not be used here.",
    "missing-fields": "The source's fields are not known before the run: declare them.",
    "not-bounded": "The source never ends by itself, and the option asks that it does.",
    "not-streaming": "Spark cannot read this format as a stream.",
    "keep-conflict": "Options about what is kept contradict each other.",
    "keep-needs-target": "Keeping the text needs another field for the result.",
    "unused-option": "An option has no effect beside the others. A warning.",
    "unreadable-type": "The format cannot be read into this type.",
    "weights-mismatch": "As many weights as choices are needed.",
    "line-too-long": "A line is longer than `max_line_bytes`; at run time it goes to the dead letters.",
}

PROBLEMS: Mapping[str, str] = {**_FILE, **_SHAPE, **_NETWORK, **_FIELDS, **_COMPONENTS}
