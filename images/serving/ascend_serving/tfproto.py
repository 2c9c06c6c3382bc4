"""The few messages of TensorFlow and TensorFlow Serving that serving reads and writes, without
importing TensorFlow.

`import tensorflow` costs about 3 s of CPU; these definitions cost some milliseconds. Field
numbers and names are those of TensorFlow's own .proto files (core/protobuf/meta_graph.proto,
saved_model.proto, config.proto, core/framework/tensor.proto, tensor_shape.proto, types.proto) and
of TensorFlow Serving's (apis/model.proto, predict.proto, get_model_metadata.proto); fields that
are not listed are skipped by protobuf as unknown. A pool of its own keeps them from clashing
with TensorFlow's when both are in one process; names of messages are not on the wire.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_PACKAGE = "ascend_serving.tensorflow"
_FIELD = descriptor_pb2.FieldDescriptorProto

_SCALARS = {
    "string": _FIELD.TYPE_STRING,
    "int32": _FIELD.TYPE_INT32,
    "int64": _FIELD.TYPE_INT64,
    "bool": _FIELD.TYPE_BOOL,
    "bytes": _FIELD.TYPE_BYTES,
    "float": _FIELD.TYPE_FLOAT,
    "double": _FIELD.TYPE_DOUBLE,
    "uint32": _FIELD.TYPE_UINT32,
    "uint64": _FIELD.TYPE_UINT64,
}

# DataType's numbers (core/framework/types.proto), which TF_DataType of the C API shares.
DATA_TYPES = {
    "DT_INVALID": 0, "DT_FLOAT": 1, "DT_DOUBLE": 2, "DT_INT32": 3, "DT_UINT8": 4, "DT_INT16": 5,
    "DT_INT8": 6, "DT_STRING": 7, "DT_COMPLEX64": 8, "DT_INT64": 9, "DT_BOOL": 10, "DT_QINT8": 11,
    "DT_QUINT8": 12, "DT_QINT32": 13, "DT_BFLOAT16": 14, "DT_QINT16": 15, "DT_QUINT16": 16,
    "DT_UINT16": 17, "DT_COMPLEX128": 18, "DT_HALF": 19, "DT_RESOURCE": 20, "DT_VARIANT": 21,
    "DT_UINT32": 22, "DT_UINT64": 23,
}  # fmt: skip

# message → field → (number, type). `*` repeats; `map:` is a map from string.
_MESSAGES: dict[str, dict[str, tuple[int, str]]] = {
    "Dim": {"size": (1, "int64"), "name": (2, "string")},
    "TensorShapeProto": {"dim": (2, "*Dim"), "unknown_rank": (3, "bool")},
    "TensorInfo": {
        "dtype": (2, "DataType"),
        "tensor_shape": (3, "TensorShapeProto"),
        "name": (1, "string"),
    },
    "TensorProto": {
        "dtype": (1, "DataType"),
        "tensor_shape": (2, "TensorShapeProto"),
        "tensor_content": (4, "bytes"),
        "float_val": (5, "*float"),
        "double_val": (6, "*double"),
        "int_val": (7, "*int32"),
        "string_val": (8, "*bytes"),
        "int64_val": (10, "*int64"),
        "bool_val": (11, "*bool"),
        "half_val": (13, "*int32"),
        "uint32_val": (16, "*uint32"),
        "uint64_val": (17, "*uint64"),
    },
    "SignatureDef": {
        "inputs": (1, "map:TensorInfo"),
        "outputs": (2, "map:TensorInfo"),
        "method_name": (3, "string"),
        "defaults": (4, "map:TensorProto"),
    },
    "SignatureDefMap": {"signature_def": (1, "map:SignatureDef")},
    "OpDef": {"name": (1, "string")},
    "OpList": {"op": (1, "*OpDef")},
    "MetaInfoDef": {
        "stripped_op_list": (2, "OpList"),
        "tags": (4, "*string"),
        "tensorflow_version": (5, "string"),
    },
    "MetaGraphDef": {"meta_info_def": (1, "MetaInfoDef"), "signature_def": (5, "map:SignatureDef")},
    "SavedModel": {"meta_graphs": (2, "*MetaGraphDef")},
    "ConfigProto": {
        "intra_op_parallelism_threads": (2, "int32"),
        "inter_op_parallelism_threads": (5, "int32"),
    },
    # google/protobuf/wrappers.proto and any.proto, which a pool of its own lacks.
    "Int64Value": {"value": (1, "int64")},
    "Any": {"type_url": (1, "string"), "value": (2, "bytes")},
    "ModelSpec": {
        "name": (1, "string"),
        "version": (2, "Int64Value"),
        "signature_name": (3, "string"),
        "version_label": (4, "string"),
    },
    "PredictRequest": {
        "model_spec": (1, "ModelSpec"),
        "inputs": (2, "map:TensorProto"),
        "output_filter": (3, "*string"),
    },
    "PredictResponse": {"outputs": (1, "map:TensorProto"), "model_spec": (2, "ModelSpec")},
    "GetModelMetadataRequest": {"model_spec": (1, "ModelSpec"), "metadata_field": (2, "*string")},
    "GetModelMetadataResponse": {"model_spec": (1, "ModelSpec"), "metadata": (2, "map:Any")},
}


def _add_field(message: descriptor_pb2.DescriptorProto, name: str, number: int, kind: str) -> None:
    field = message.field.add(name=name, number=number, label=_FIELD.LABEL_OPTIONAL)
    if kind.startswith("map:"):
        entry = message.nested_type.add(name=name.title().replace("_", "") + "Entry")
        entry.options.map_entry = True
        _add_field(entry, "key", 1, "string")
        _add_field(entry, "value", 2, kind[4:])
        field.type = _FIELD.TYPE_MESSAGE
        field.type_name = f".{_PACKAGE}.{message.name}.{entry.name}"
        field.label = _FIELD.LABEL_REPEATED
        return
    if kind.startswith("*"):
        field.label = _FIELD.LABEL_REPEATED
        kind = kind[1:]
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
        return
    field.type = _FIELD.TYPE_ENUM if kind == "DataType" else _FIELD.TYPE_MESSAGE
    field.type_name = f".{_PACKAGE}.{kind}"


def _build_file() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(
        name="ascend_serving/tensorflow.proto", package=_PACKAGE, syntax="proto3"
    )
    enum = file.enum_type.add(name="DataType")
    for name, number in DATA_TYPES.items():
        enum.value.add(name=name, number=number)
    for message_name, fields in _MESSAGES.items():
        message = file.message_type.add(name=message_name)
        for field_name, (number, kind) in fields.items():
            _add_field(message, field_name, number, kind)
    return file


_POOL = descriptor_pool.DescriptorPool()
_POOL.Add(_build_file())


def _message_class(name: str) -> Any:
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"{_PACKAGE}.{name}"))


ConfigProto = _message_class("ConfigProto")
GetModelMetadataRequest = _message_class("GetModelMetadataRequest")
GetModelMetadataResponse = _message_class("GetModelMetadataResponse")
MetaGraphDef = _message_class("MetaGraphDef")
PredictRequest = _message_class("PredictRequest")
PredictResponse = _message_class("PredictResponse")
SavedModel = _message_class("SavedModel")
SignatureDefMap = _message_class("SignatureDefMap")
TensorProto = _message_class("TensorProto")
