"""The TensorFlow library as a plug-in: which ops it has, with their schemas, and functions of them.

For programs that find out at run time what a library offers, such as graph optimisers and tools.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import op_def_pb2
from tensorflow.python.framework import op_def_registry

from ascend_ops.build_record import PACKAGE_DIR
from ascend_ops.tensorflow import load_op_library

_PREFIXES = ("ascend_", "custom_fused_")


@dataclass(frozen=True)
class OpSchema:
    """An op's interface: names of inputs and outputs with their type attributes, and attributes.

    `attributes` maps a name to its type ("int", "type", …) and, where it has one, its default.
    """

    name: str
    inputs: dict[str, str]
    outputs: dict[str, str]
    attributes: dict[str, tuple[str, Any]]
    types: dict[str, tuple[str, ...]]


def _attribute_default(attribute: op_def_pb2.OpDef.AttrDef) -> Any:
    kind = attribute.default_value.WhichOneof("value")
    return None if kind is None else getattr(attribute.default_value, kind)


def _schema(definition: op_def_pb2.OpDef) -> OpSchema:
    types = {
        attribute.name: tuple(
            tf.dtypes.as_dtype(number).name for number in attribute.allowed_values.list.type
        )
        for attribute in definition.attr
        if attribute.type == "type"
    }
    return OpSchema(
        definition.name,
        {argument.name: argument.type_attr for argument in definition.input_arg},
        {argument.name: argument.type_attr for argument in definition.output_arg},
        {a.name: (a.type, _attribute_default(a)) for a in definition.attr},
        types,
    )


class Plugin:
    """A loaded op library. BuildMismatchError when it was built for another TensorFlow."""

    def __init__(self, directory: Path = PACKAGE_DIR) -> None:
        self._module = load_op_library(directory)
        self.schemas = {schema.name: schema for schema in self._read_schemas()}
        self.functions = {name: self._function(name) for name in self.schemas}

    def _read_schemas(self) -> list[OpSchema]:
        # Only functions of the module are ops of this library; the registry has every op.
        names = [
            "".join(word.capitalize() for word in name.split("_"))
            for name, _ in inspect.getmembers(self._module, inspect.isfunction)
            if name.startswith(_PREFIXES) and not name.endswith("_eager_fallback")
        ]
        definitions = [op_def_registry.get(name) for name in names]
        return [_schema(definition) for definition in definitions if definition is not None]

    def _function(self, name: str) -> Callable[..., Any]:
        """The op as a tf.function; attributes are keyword arguments with Python values."""
        snake = "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")
        call: Callable[..., Any] = tf.function(getattr(self._module, snake))
        return call
