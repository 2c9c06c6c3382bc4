"""The operators as TensorFlow ops, with gradients of any order.

Importing this module loads the op library, so that a SavedModel that uses the ops can be loaded
afterwards; nothing is loaded when the library was built for another TensorFlow.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import tensorflow as tf
from tensorflow.python.eager import context

from ascend_ops.arguments import check_choice, check_counts, check_padding, check_steps
from ascend_ops.build_record import (
    PACKAGE_DIR,
    REBUILD,
    BuildRecord,
    find_library,
    read_build_record,
)
from ascend_ops.errors import BuildMismatchError, LibraryError
from ascend_ops.fused_gradients import conv_gradient, matmul_gradient
from ascend_ops.fused_ops import ACTIVATIONS, PADDINGS

_REGISTERED = "_ascend_ops_gradients"
CONV_SHAPES: Final = (
    "[batch, height, width, channels], [height, width, channels, out_channels] and [out_channels]"
)
TYPES: Final = (tf.float32, tf.float16, tf.bfloat16)
# What TensorFlow raises for operands that an op does not take: in a graph, and eagerly.
_REFUSED: Final = (TypeError, ValueError, tf.errors.InvalidArgumentError, tf.errors.NotFoundError)


def check_build(record: BuildRecord, version: str, cxx11_abi: str) -> None:
    """Raises BuildMismatchError unless the library was built for this TensorFlow and C++ ABI.

    A library of another build crashes or fails with undefined symbols, so this comes before it
    is opened.
    """
    if not record.tensorflow_version:
        raise BuildMismatchError(
            f"ascend_ops was built without TensorFlow; found TensorFlow {version}. "
            f"Rebuild with: {REBUILD}"
        )
    if (record.tensorflow_version, record.tensorflow_cxx11_abi) != (version, cxx11_abi):
        raise BuildMismatchError(
            f"ascend_ops was built for TensorFlow {record.tensorflow_version} (CXX11 ABI "
            f"{record.tensorflow_cxx11_abi}); found TensorFlow {version} (CXX11 ABI {cxx11_abi}). "
            f"Rebuild with: {REBUILD}"
        )


def load_op_library(directory: Path = PACKAGE_DIR) -> Any:
    """Loads libascend_tensorflow.so from `directory`; the module that TensorFlow makes of it.

    LibraryError for a file that is missing, damaged or no library of TensorFlow ops.
    """
    directory = Path(directory)
    check_build(read_build_record(directory), tf.__version__, str(tf.sysconfig.CXX11_ABI_FLAG))
    path = find_library("ascend_tensorflow", directory)
    try:
        module = tf.load_op_library(str(path))
    except (tf.errors.OpError, RuntimeError) as error:
        reason = getattr(error, "message", str(error)).removeprefix(f"{path}: ")
        raise LibraryError(f"cannot load {path}: {reason}. Build it again: {REBUILD}") from error
    if not hasattr(module, "ascend_sigmoid"):
        raise LibraryError(f"{path} has none of this package's ops. Build it again: {REBUILD}")
    return module


_ops = load_op_library()


def _sigmoid_gradient(op: Any, grad: Any) -> Any:
    return _ops.ascend_sigmoid_grad(op.outputs[0], grad)


def _sigmoid_grad_gradient(op: Any, grad: Any) -> tuple[Any, Any]:
    """Derivatives of y·(1 − y)·dy: (1 − 2y)·dy for y, and y·(1 − y) for dy."""
    y, dy = op.inputs
    return (1 - 2 * y) * dy * grad, _ops.ascend_sigmoid_grad(y, grad)


def _embedding_dense_grad_gradient(op: Any, table_grad_grad: Any) -> tuple[Any, None]:
    """The operation is linear in grad: its derivative looks the incoming rows up again.

    Rows that were dropped as padding, or divided by their frequency, pass on as much.
    """
    indices = op.inputs[1]
    rows = tf.gather(table_grad_grad, indices)
    if op.get_attr("scale_grad_by_freq"):
        flat = tf.reshape(tf.cast(indices, tf.int32), [-1])
        counts = tf.math.bincount(flat, minlength=op.get_attr("num_weights"))
        times = tf.gather(counts, indices)
        rows /= tf.cast(times, rows.dtype)[..., tf.newaxis]
    kept = tf.not_equal(indices, tf.cast(op.get_attr("padding_idx"), indices.dtype))
    return rows * tf.cast(kept, rows.dtype)[..., tf.newaxis], None


def _gather_add_relu_gradient(op: Any, grad: Any) -> tuple[Any, None, Any]:
    """For the table, sums of rows by index; for a row as addend, the sum of all rows."""
    table, indices, addend = op.inputs
    passed = grad * tf.cast(op.outputs[0] > 0, grad.dtype)
    rows = tf.shape(table, indices.dtype)[0]
    lookups = tf.reshape(tf.where(indices < 0, indices + rows, indices), [-1])
    flat = tf.reshape(passed, [tf.size(lookups), tf.reduce_prod(tf.shape(table)[1:])])
    if table.shape.rank is not None and table.shape[0] is not None:
        sums = embedding_dense_grad(flat, lookups, table.shape[0])
    else:
        sums = tf.math.unsorted_segment_sum(flat, lookups, rows)
    # As many addends as the result has: one that has its shape, or one for each lookup.
    times = tf.size(passed) // tf.maximum(tf.size(addend), 1)
    added = tf.reshape(passed, tf.concat([[times], tf.shape(addend)], 0))
    return tf.reshape(sums, tf.shape(table)), None, tf.reduce_sum(added, 0)


def _register_gradients() -> None:
    """Registers once a process: TensorFlow refuses a second registration, also after a reload."""
    if not hasattr(_ops, _REGISTERED):
        tf.RegisterGradient("AscendSigmoid")(_sigmoid_gradient)
        tf.RegisterGradient("AscendSigmoidGrad")(_sigmoid_grad_gradient)
        tf.RegisterGradient("AscendEmbeddingDenseGrad")(_embedding_dense_grad_gradient)
        tf.RegisterGradient("AscendGatherAddRelu")(_gather_add_relu_gradient)
        tf.RegisterGradient("CustomFusedMatMul")(matmul_gradient)
        tf.RegisterGradient("CustomFusedConv")(conv_gradient)
        setattr(_ops, _REGISTERED, True)


_register_gradients()


def find_op(operator: str) -> Callable[..., Any] | None:
    """The function of the op Ascend<Operator>, such as a user's own; None when there is none."""
    function: Callable[..., Any] | None = getattr(_ops, f"ascend_{operator}", None)
    return function


def _explain(
    operator: str, error: Exception, operands: Sequence[Any], wanted: str, indices: Any = None
) -> None:
    """An error with what to do, in place of `error`, where its reason is found in the operands.

    Asked only after the op has refused them, so that it costs a good call nothing. `wanted` are the
    shapes that they must have; those of an eager call are checked by the op itself.
    """
    _explain_device(operator, error)
    _explain_types(operator, error, operands)
    kind = getattr(indices, "dtype", tf.int64)
    if tf.as_dtype(kind) not in (tf.int32, tf.int64):
        raise TypeError(
            f"{operator}: indices have dtype {tf.as_dtype(kind).name}; cast them to int32 or int64 "
            "(tf.cast)"
        ) from error
    shapes = [getattr(x, "shape", None) for x in operands]
    if not tf.executing_eagerly() and isinstance(error, ValueError) and None not in shapes:
        raise ValueError(
            f"{operator}: the shapes are {', '.join(map(str, shapes))}; they must be {wanted}: "
            f"{str(error).splitlines()[0]}"
        ) from error


def _explain_device(operator: str, error: Exception) -> None:
    """InvalidArgumentError when the op was placed where it has no kernel."""
    device = context.context().device_name or ""
    if device and tf.DeviceSpec.from_string(device).device_type != "CPU":
        raise tf.errors.InvalidArgumentError(
            None,
            None,
            f"{operator}: it is placed on {device}, and its kernels are for CPUs. Place it there: "
            "with tf.device('/CPU:0'), or tf.config.set_soft_device_placement(True)",
        ) from error


def _explain_types(operator: str, error: Exception, operands: Sequence[Any]) -> None:
    """TypeError for operands that are not dense, of another type, or of several."""
    loose = [x for x in operands if isinstance(x, tf.RaggedTensor | tf.SparseTensor)]
    if loose:
        raise TypeError(
            f"{operator}: a {type(loose[0]).__name__} is not supported; make it dense "
            "(ragged.to_tensor(), tf.sparse.to_dense)"
        ) from error
    types = [tf.as_dtype(x.dtype) for x in operands if hasattr(x, "dtype")]
    wrong = [dtype.name for dtype in types if dtype not in TYPES]
    if wrong:
        raise TypeError(
            f"{operator}: dtype {wrong[0]} is not supported; cast to float32, float16 or bfloat16 "
            "(tf.cast)"
        ) from error
    if len(set(types)) > 1:
        names = ", ".join(dtype.name for dtype in types)
        raise TypeError(
            f"{operator}: the operands have dtypes {names}; cast them to one (tf.cast)"
        ) from error


def matmul_bias_act(
    a: Any,
    b: Any,
    bias: Any,
    activation: str = "none",
    transpose_a: bool = False,
    transpose_b: bool = False,
    name: str | None = None,
) -> tf.Tensor:
    """activation(a · b + bias) in one pass; "none", "relu" or "sigmoid".

    Matrices [m, k] and [k, n], each transposed where asked for, and a bias [n], of one type.
    InvalidArgumentError names the shapes that do not fit. Differentiable to any order.
    """
    check_choice("matmul_bias_act", ACTIVATIONS, activation=activation)
    try:
        return _ops.custom_fused_mat_mul(
            a,
            b,
            bias,
            transpose_a=transpose_a,
            transpose_b=transpose_b,
            activation=activation,
            name=name,
        )
    except _REFUSED as error:
        _explain("matmul_bias_act", error, (a, b, bias), "[m, k], [k, n] and [n]")
        raise


def conv2d_bias_relu(
    x: Any,
    kernel: Any,
    bias: Any,
    strides: tuple[int, int] = (1, 1),
    dilations: tuple[int, int] = (1, 1),
    padding: str = "SAME",
    activation: str = "relu",
    name: str | None = None,
) -> tf.Tensor:
    """activation(conv2d(x, kernel) + bias) in one pass; "none", "relu" or "sigmoid".

    `x` is [batch, height, width, channels], the kernel [height, width, channels, out_channels];
    steps are along (height, width). ValueError for steps that are none; InvalidArgumentError names
    what else does not fit. Differentiable to any order.
    """
    check_steps("conv2d_bias_relu", strides=strides, dilations=dilations)
    check_choice("conv2d_bias_relu", PADDINGS, padding=padding)
    check_choice("conv2d_bias_relu", ACTIVATIONS, activation=activation)
    try:
        return _ops.custom_fused_conv(
            x,
            kernel,
            bias,
            strides=[1, *strides, 1],
            dilations=[1, *dilations, 1],
            padding=padding,
            activation=activation,
            name=name,
        )
    except _REFUSED as error:
        _explain("conv2d_bias_relu", error, (x, kernel, bias), CONV_SHAPES)
        raise


def gather_add_relu(table: Any, indices: Any, addend: Any, name: str | None = None) -> tf.Tensor:
    """relu(table[indices] + addend) in one pass; `table` has rows along its first axis.

    `indices` (int32 or int64) may be negative, counting from the end; InvalidArgumentError names
    the first one outside the table. `addend` has the shape of a row, or of the result: that of
    `indices` and then that of a row. Differentiable in `table` and `addend`.
    """
    try:
        return _ops.ascend_gather_add_relu(table, indices, addend, name=name)
    except _REFUSED as error:
        wanted = "[rows, …], and a row or the result"
        _explain("gather_add_relu", error, (table, addend), wanted, indices)
        raise


def sigmoid(x: Any, name: str | None = None) -> tf.Tensor:
    """1 / (1 + e^-x), elementwise, by the Ascend C kernel.

    `x` is float32, half or bfloat16 of rank at most 8; the result has its shape and type.
    InvalidArgumentError names the rank when it is higher. Differentiable to any order.
    """
    try:
        return _ops.ascend_sigmoid(x, name=name)
    except _REFUSED as error:
        _explain("sigmoid", error, (x,), "of rank 8 or less")
        raise


def sigmoid_grad(y: Any, dy: Any, name: str | None = None) -> tf.Tensor:
    """y · (1 − y) · dy, where `y` is the sigmoid's result; both of one shape and type."""
    try:
        return _ops.ascend_sigmoid_grad(y, dy, name=name)
    except _REFUSED as error:
        _explain("sigmoid_grad", error, (y, dy), "the same, of rank 8 or less")
        raise


def embedding_dense_grad(
    grad: Any,
    indices: Any,
    num_weights: int,
    padding_idx: int | None = None,
    scale_grad_by_freq: bool = False,
    name: str | None = None,
) -> tf.Tensor:
    """The gradient of an embedding table [num_weights, width]: sums of the rows of `grad` by index.

    `grad` has the shape of `indices` (int32 or int64) and a last axis, the width. The row
    `padding_idx` stays zero; with `scale_grad_by_freq` a row is divided by how often it was looked
    up. InvalidArgumentError names the first index outside the table. Differentiable in `grad`.
    """
    check_counts("embedding_dense_grad", 0, num_weights=num_weights)
    check_padding("embedding_dense_grad", padding_idx, num_weights)
    try:
        return _ops.ascend_embedding_dense_grad(
            grad,
            indices,
            num_weights=num_weights,
            padding_idx=-1 if padding_idx is None else padding_idx,
            scale_grad_by_freq=scale_grad_by_freq,
            name=name,
        )
    except _REFUSED as error:
        wanted = "that of the indices, and a width"
        _explain("embedding_dense_grad", error, (grad,), wanted, indices)
        raise
