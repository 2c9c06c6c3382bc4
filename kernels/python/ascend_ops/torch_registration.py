"""Registering an operator with PyTorch: one account of it, for each version's way of doing so.

PyTorch from 2.4 on has `torch.library.custom_op` with `register_fake` and `register_autograd`;
before, the same is built from `torch.library.Library` and an autograd function. Everything above
this module is the same for both.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import torch

NAMESPACE: Final = "ascend_c"
HAS_CUSTOM_OP: Final = hasattr(torch.library, "custom_op")


@dataclass(frozen=True)
class TorchOperator:
    """One operator of the namespace.

    `compute` takes and gives CPU tensors, `fake` gives an empty tensor of the result's shape and
    type for tensors without data, and both refuse the same arguments. `save` keeps in ctx what
    `backward` needs; `backward` gives a gradient, or None, for each argument.
    """

    name: str
    schema: str
    compute: Callable[..., Any]
    fake: Callable[..., Any]
    save: Callable[[Any, tuple[Any, ...], Any], None]
    backward: Callable[..., Any]


# Libraries of the old way: what they register ends with them.
_libraries: list[Any] = []


def _register_custom_op(operator: TorchOperator) -> None:
    op = torch.library.custom_op(
        f"{NAMESPACE}::{operator.name}",
        operator.compute,
        mutates_args=(),
        device_types="cpu",
        schema=operator.schema,
    )
    op.register_fake(operator.fake)
    op.register_autograd(operator.backward, setup_context=operator.save)


def _autograd_function(operator: TorchOperator) -> Callable[..., Any]:
    """The operator with a derivative, for CPU tensors."""

    class Function(torch.autograd.Function):  # type: ignore[misc]  # PyTorch may be missing
        @staticmethod
        def forward(ctx: Any, *arguments: Any) -> Any:
            output = operator.compute(*arguments)
            operator.save(ctx, arguments, output)
            return output

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            return operator.backward(ctx, *gradients)

    apply: Callable[..., Any] = Function.apply
    return apply


def _register_library(operator: TorchOperator) -> None:
    if not _libraries:
        _libraries.append(torch.library.Library(NAMESPACE, "DEF"))
    library = _libraries[0]
    library.define(operator.name + operator.schema)
    library.impl(operator.name, operator.compute, "CPU")
    library.impl(operator.name, operator.fake, "Meta")
    library.impl(operator.name, operator.fake, "AutogradMeta")
    library.impl(operator.name, _autograd_function(operator), "AutogradCPU")


def register(operator: TorchOperator) -> None:
    """Makes it `torch.ops.ascend_c.<name>`, with its derivative and its fake kernel."""
    if HAS_CUSTOM_OP:
        _register_custom_op(operator)
    else:
        _register_library(operator)
