"""The Python front end: builds pipelines from method calls, one for each component.

```python
from etl.sdk import col, pipeline, read

logins = read.file("auth.log").filter(col("message").like("%Failed password%")).grok("%{IP:source.ip} port")
pipeline("logins", logins.to_file("logins.jsonl")).run()
```
"""

from etl.api import ComponentError, EtlError, PlanError
from etl.config.problems import ConfigError, Problem
from etl.sdk.columns import Column, col, expr, lit, when
from etl.sdk.events import Events
from etl.sdk.functions import Function, function
from etl.sdk.generated.functions import Functions
from etl.sdk.pipeline import Pipeline, pipeline
from etl.sdk.session import stop_spark
from etl.sdk.stream import Output, Stream, Table, dead_letters, read, table, union
from etl.sdk.trial import Trial

fn = Functions()

__all__ = [
    "Column",
    "ComponentError",
    "ConfigError",
    "EtlError",
    "Events",
    "Function",
    "Output",
    "Pipeline",
    "PlanError",
    "Problem",
    "Stream",
    "Table",
    "Trial",
    "col",
    "dead_letters",
    "expr",
    "fn",
    "function",
    "lit",
    "pipeline",
    "read",
    "stop_spark",
    "table",
    "union",
    "when",
]
