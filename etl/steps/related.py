"""Add the fields of the Elastic Common Schema by which events of different sources are searched."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, Literal

import pyarrow as pa
from pydantic import Field

from etl.api import ArrowStep, FieldName, Finding, Outcome, Schema, unknown_field, with_columns, with_fields

_LIST = pa.list_(pa.string())
_SIDES = ("source", "destination", "client", "server")

_COLLECTED = {
    "related.ip": re.compile(r".+\.ip"),
    "related.user": re.compile(r"(?:.+\.)?user(?:\.(?:effective|target|changes|audit|saved|filesystem))?\.name"),
    "related.hosts": re.compile(
        r"host\.(?:name|hostname)|observer\.(?:name|hostname)|(?:source|destination|client|server|url)\.domain"
        r"|dns\.question\.name|tls\.client\.server_name"
    ),
    "related.hash": re.compile(
        r".+\.hash\.(?:md5|sha1|sha224|sha256|sha384|sha512|ssdeep|tlsh)|.+\.imphash|tls\.client\.ja3|tls\.server\.ja3s"
    ),
}
"""List field → pattern of the fields that ECS collects in it."""

_FLOW = ("source.ip", "destination.ip", "network.transport")
_PORTS = ("source.port", "destination.port")
_ID = "network.community_id"


class Related(ArrowStep):
    """Add what the Elastic Common Schema (ECS) is searched by: ``related.*``, addresses and ``network.community_id``.

    ``related.ip``, ``related.user``, ``related.hosts`` and ``related.hash`` are arrays of the different values of all fields
    that ECS collects in them, such as ``source.ip`` and ``destination.nat.ip``, or of those that an option names; null where
    an event has none. ``source.address`` and its like become the ``ip`` beside them where they are missing or null.

    ``network.community_id`` is the Community ID, version 1, of ``source.ip``, ``destination.ip``, their ports and
    ``network.transport`` (a name or number); of ICMP the options name the fields with type and code. One that an event has
    stays; it is null where one of its parts is missing. In expressions the function ``community_id`` gives it of other fields.

    Fields that are not there are left out, and so is what would be made of them. No event is lost.

    ```yaml
    type: related
    icmp_type: icmp.type
    icmp_code: icmp.code
    ```
    """

    takes_views: ClassVar[bool] = True

    type: Literal["related"] = "related"
    ip: Sequence[FieldName] | None = Field(
        default=None, description="Fields whose addresses are collected; none means all `*.ip`."
    )
    user: Sequence[FieldName] | None = Field(
        default=None, description="Fields whose user names are collected; none means those of ECS."
    )
    hosts: Sequence[FieldName] | None = Field(
        default=None, description="Fields whose host names and domains are collected; none means those of ECS."
    )
    hash: Sequence[FieldName] | None = Field(
        default=None, description="Fields whose hashes are collected; none means those of ECS."
    )
    community_id: bool = Field(default=True, description="Whether the Community ID of a flow is added.")
    seed: int = Field(default=0, ge=0, le=65535, description="Seed of Community IDs; the same in all systems that compare them.")
    icmp_type: FieldName | None = Field(default=None, description="Field with the type of an ICMP message.")
    icmp_code: FieldName | None = Field(default=None, description="Field with the code of an ICMP message.")

    def check(self, incoming: Schema) -> Iterable[Finding]:
        for option in ("ip", "user", "hosts", "hash"):
            for at, name in enumerate(getattr(self, option) or ()):
                yield from _text_field(name, incoming, (option, at))
        for option in ("icmp_type", "icmp_code"):
            name = getattr(self, option)
            if name is not None and name not in incoming.names:
                yield unknown_field(name, incoming, (option,))
            elif name is not None and not pa.types.is_integer(incoming.field(name).type):
                yield Finding("wrong-type", f"field {name!r} is not a whole number", (option,), "convert it in an earlier step")

    def fields(self, incoming: Schema) -> Schema:
        lists = dict.fromkeys(self._collect(incoming), _LIST)
        ids = {_ID: pa.string()} if self._has_flow(incoming) else {}
        return with_fields(incoming, {**lists, **{name: pa.string() for name in _addresses(incoming)}, **ids})

    def open(self, incoming: Schema) -> Callable[[pa.RecordBatch], Outcome]:
        collected, addresses, has_flow = self._collect(incoming), list(_addresses(incoming)), self._has_flow(incoming)

        def run(batch: pa.RecordBatch) -> Outcome:
            from etl.steps.distinct_values import distinct_values

            columns = {name: distinct_values([batch.column(one) for one in names]) for name, names in collected.items()}
            columns |= {name: _address(batch, name) for name in addresses}
            columns |= {_ID: self._ids(batch)} if has_flow else {}
            return Outcome(with_columns(batch, columns))

        return run

    def _collect(self, incoming: Schema) -> Mapping[str, Sequence[str]]:
        """Each list field, and the fields whose values it collects."""
        given = {"related.ip": self.ip, "related.user": self.user, "related.hosts": self.hosts, "related.hash": self.hash}
        texts = [field.name for field in incoming if _is_text(field.type) and not pa.types.is_null(field.type)]
        found = {
            name: [one for one in texts if (one in names if names is not None else _COLLECTED[name].fullmatch(one))]
            for name, names in given.items()
        }
        return {name: [one for one in names if not one.startswith("related.")] for name, names in found.items() if names}

    def _has_flow(self, incoming: Schema) -> bool:
        texts = all(name in incoming.names and pa.types.is_string(incoming.field(name).type) for name in _FLOW)
        ports = all(name in incoming.names and pa.types.is_integer(incoming.field(name).type) for name in _PORTS)
        free = _ID not in incoming.names or pa.types.is_string(incoming.field(_ID).type)
        return self.community_id and texts and ports and free

    def _ids(self, batch: pa.RecordBatch) -> pa.Array:
        import pyarrow.compute as pc

        from etl.columns.texts import materialize_array
        from etl.expressions.values.community_id import community_ids

        source, destination, transport = (materialize_array(batch.column(name)) for name in _FLOW)
        port, other_port = self._ports(batch, transport)
        ids = community_ids(source, destination, port, other_port, transport, self.seed)
        return pc.coalesce(materialize_array(batch.column(_ID)), ids) if _ID in batch.schema.names else ids

    def _ports(self, batch: pa.RecordBatch, transport: pa.Array) -> tuple[pa.Array, pa.Array]:
        """Ports; type and code for ICMP."""
        import pyarrow.compute as pc

        port, other_port = (batch.column(name).cast(pa.int64()) for name in _PORTS)
        if self.icmp_type is None or self.icmp_code is None:
            return port, other_port
        icmp = pc.match_substring(transport, "icmp")
        kind, code = (batch.column(name).cast(pa.int64()) for name in (self.icmp_type, self.icmp_code))
        return pc.if_else(icmp, kind, port), pc.if_else(icmp, code, other_port)


def _is_text(type_: pa.DataType) -> bool:
    return pa.types.is_string(type_) or type_ == _LIST or pa.types.is_null(type_)


def _text_field(name: str, incoming: Schema, path: tuple[str | int, ...]) -> Iterator[Finding]:
    if name not in incoming.names:
        yield unknown_field(name, incoming, path)
    elif not _is_text(incoming.field(name).type):
        yield Finding(
            "wrong-type", f"field {name!r} is neither a text nor an array of texts", path, "convert it in an earlier step"
        )


def _addresses(incoming: Schema) -> Iterator[str]:
    """The address fields that an ip field beside them can fill."""
    for side in _SIDES:
        name = f"{side}.address"
        free = name not in incoming.names or pa.types.is_string(incoming.field(name).type)
        if free and f"{side}.ip" in incoming.names and pa.types.is_string(incoming.field(f"{side}.ip").type):
            yield name


def _address(batch: pa.RecordBatch, name: str) -> pa.Array:
    import pyarrow.compute as pc

    from etl.columns.texts import materialize_array

    ip = batch.column(name.replace(".address", ".ip"))
    if name not in batch.schema.names:
        return ip
    known = batch.column(name)
    if known.null_count == len(known):
        return ip
    return pc.coalesce(materialize_array(known), materialize_array(ip)) if known.null_count else known
