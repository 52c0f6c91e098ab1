"""The part of Chakra's protobuf schema that a simulation needs, declared at run time.

Fields that are not declared here are ignored, as usual for protocol buffers. The library is an
optional dependency, so it is imported only when a trace of messages is read.

Reference: https://github.com/mlcommons/chakra, ``schema/protobuf/et_def.proto``.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from prism_common.errors import Problem, UserError

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import DescriptorProto

PACKAGE = "prism_sim.chakra"

VALUES = {
    "double_val": (3, "DOUBLE"), "float_val": (5, "FLOAT"), "int32_val": (7, "INT32"),
    "int64_val": (9, "INT64"), "uint32_val": (11, "UINT32"), "uint64_val": (13, "UINT64"),
    "sint32_val": (15, "SINT32"), "sint64_val": (17, "SINT64"), "fixed32_val": (19, "FIXED32"),
    "fixed64_val": (21, "FIXED64"), "sfixed32_val": (23, "SFIXED32"),
    "sfixed64_val": (25, "SFIXED64"), "bool_val": (27, "BOOL"), "bool_list": (28, "BoolList"),
    "string_val": (29, "STRING"),
}  # fmt: skip
"""The alternatives of an attribute's value: field number and type."""

MESSAGES = {
    "BoolList": {"values": (1, "BOOL*")},
    "IOInfo": {"values": (1, "STRING")},
    "Attribute": {"name": (1, "STRING"), **VALUES},
    "Node": {
        "id": (1, "UINT64"), "name": (2, "STRING"), "type": (3, "INT32"),
        "ctrl_deps": (4, "UINT64*"), "data_deps": (5, "UINT64*"),
        "duration_micros": (7, "UINT64"), "inputs": (8, "IOInfo"), "attr": (10, "Attribute*"),
    },
}  # fmt: skip
"""Fields of each message: number and type; a star marks repeated ones."""


@cache
def node_messages() -> tuple[Any, type[Exception]]:
    """The class of a node's messages, and the exception that it raises for invalid bytes.

    Raises
    ------
    UserError : protobuf is not installed.
    """
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
        from google.protobuf.message import DecodeError
    except ImportError as error:
        what = "reading a Chakra trace of protobuf messages needs the package protobuf"
        how = "pip install 'prism-sim[chakra]', or give the trace as JSON (chakra_jsonizer)"
        raise UserError(Problem(what, "", how)) from error
    schema = descriptor_pb2.FileDescriptorProto(
        name="prism_sim_chakra.proto", package=PACKAGE, syntax="proto3"
    )
    for name, fields in MESSAGES.items():
        _declare(schema.message_type.add(name=name), fields)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(schema)
    node = pool.FindMessageTypeByName(f"{PACKAGE}.Node")
    return message_factory.GetMessageClass(node), DecodeError


def _declare(message: DescriptorProto, fields: dict[str, tuple[int, str]]) -> None:
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Form

    for name, (number, kind) in fields.items():
        bare = kind.rstrip("*")
        label = Form.LABEL_OPTIONAL if bare == kind else Form.LABEL_REPEATED
        field = message.field.add(name=name, number=number, label=label)
        if bare in MESSAGES:
            field.type, field.type_name = Form.TYPE_MESSAGE, f".{PACKAGE}.{bare}"
        else:
            field.type = getattr(Form, f"TYPE_{bare}")
        if name in VALUES:
            field.oneof_index = 0
    if set(VALUES) <= set(fields):
        message.oneof_decl.add(name="value")
