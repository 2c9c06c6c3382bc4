"""The optimiser's passes in order, and the report of what they did."""

from dataclasses import dataclass
from typing import Final

from tensorflow.python.framework import op_def_registry

from ascend_ops.graph_clean import (
    fold_constants,
    remove_dead,
    remove_identities,
    remove_idle_control,
)
from ascend_ops.graph_fusion import CONV, MATMUL, Fused, fuse
from ascend_ops.graph_layout import to_nhwc
from ascend_ops.graph_load import load_ops
from ascend_ops.graph_view import Model

ATTRIBUTES: Final = {
    MATMUL: {"T", "transpose_a", "transpose_b", "constant_b", "activation"},
    CONV: {"T", "strides", "padding", "dilations", "activation"},
}


@dataclass(frozen=True)
class Optimised:
    """The new model, and what was done to it; `left_out` says why nothing was fused, or ""."""

    model: Model
    nodes_before: int
    nodes_after: int
    folded: int
    identities: int
    turned: int
    fused: tuple[Fused, ...]
    left_out: str


def optimise(model: Model, *, custom_ops: bool = True, nhwc: bool = False) -> Optimised:
    """A faster model that computes the same; `model` itself stays as it is.

    `custom_ops` fuses into this package's ops; `nhwc` turns ops of NCHW.
    """
    new = model.copy()
    before = len(new.graph.node)
    remove_dead(new)
    remove_idle_control(new)
    identities = remove_identities(new)
    folded = fold_constants(new)
    remove_dead(new)
    turned = to_nhwc(new) if nhwc else 0
    if turned:
        folded += fold_constants(new)
        remove_dead(new)
    left_out = missing_ops() if custom_ops else ""
    fused = tuple(fuse(new)) if custom_ops and not left_out else ()
    remove_dead(new)
    after = len(new.graph.node)
    return Optimised(new, before, after, folded, identities, turned, fused, left_out)


def missing_ops() -> str:
    """Why the fused ops cannot be used here, or "": no library, or one without them."""
    why = load_ops()
    if why:
        return why
    for name, attributes in ATTRIBUTES.items():
        definition = op_def_registry.get(name)
        if definition is None:
            return f"the op library has no {name}; rebuild it"
        unknown = attributes - {attribute.name for attribute in definition.attr}
        if unknown:
            return f"{name} of the op library has no attribute {', '.join(sorted(unknown))}"
    return ""


def format_report(done: Optimised) -> str:
    """Lines for people."""
    counts = [
        f"nodes {done.nodes_before} → {done.nodes_after}",
        f"{done.folded} folded into constants, {done.identities} that passed on removed",
        f"{done.turned} turned to NHWC",
    ]
    lines = [", ".join(counts)]
    for one in done.fused:
        ending = "" if one.activation == "none" else f" with {one.activation}"
        lines.append(f"fused {one.op}{ending}: {' + '.join(one.replaced)}")
    if done.left_out:
        lines.append(f"nothing fused: {done.left_out}")
    elif not done.fused:
        lines.append("nothing to fuse")
    return "\n".join(lines)
