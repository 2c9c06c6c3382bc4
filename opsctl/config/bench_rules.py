"""What must hold between the keys of `bench`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opsctl.config import measuring as s

if TYPE_CHECKING:
    from opsctl.config.relations import Section


def bench(value: s.Bench, at: Section) -> None:
    """Check the section `bench`."""
    at.rooted("path", value.path)
    if "body" in at.node.entries and at.has("requests_file"):
        at.wrong("requests_file", "body is set too; allowed: one of both")
    given = "body" in at.node.entries or value.requests_file
    if value.method == "POST" and not given and not value.is_generated:
        at.wrong("requests_file", "a POST needs requests_file or body (or a path with :predict)")
    if value.protocol == "grpc":
        _by_grpc(value, at)
    elif at.has("grpc_port"):
        at.wrong("grpc_port", "is for `protocol: grpc` alone")
    if not value.batch_sizes:
        at.wrong("batch_sizes", "the list is empty")
    if list(value.batch_sizes) != sorted(set(value.batch_sizes)):
        at.wrong("batch_sizes", "allowed: each size once, the smallest first")
    if at.has("batch_sizes") and value.batch_sizes != (1,) and value.sizes == (1,):
        at.wrong("batch_sizes", "without requests_file no batches can be made; allowed: [1]")
    if value.warmup_s > value.warmup_max_s:
        at.wrong("warmup_s", f"is more than warmup_max_s ({value.warmup_max_s:g})")


def _by_grpc(value: s.Bench, at: Section) -> None:
    if not s.PREDICT_PATH.fullmatch(value.path):
        at.wrong("path", "names no model for grpc; allowed: /v1/models/NAME[/versions/N]:predict")
    if value.method != "POST":
        at.wrong("method", f"{value.method} is not for grpc; allowed: POST")
