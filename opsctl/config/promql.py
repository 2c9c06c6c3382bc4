"""What opsctl needs to know of a PromQL query before it asks: placeholders, names, ranges. Pure.

Source: Prometheus, "Querying basics" and "Operators" (the language of version 2.42). A query is
not parsed: Prometheus does that, and its words for an error are better.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

KNOWN = ("release", "replica", "host", "port", "health_port")
"""Placeholders: values of the arm that a query is asked for."""

_PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
"""A bare name in braces is no PromQL (a selector has an operator in it), so nothing is mistaken."""

_TOKEN = re.compile(
    r"""(?P<text>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`[^`]*`)"""
    r"""|(?P<comment>\#[^\n]*)"""
    r"""|(?P<number>\b[0-9][0-9a-zA-Z_.]*)"""
    r"""|(?P<name>[A-Za-z_:][A-Za-z0-9_:]*)"""
    r"""|(?P<sign>\S)"""
)

_LABEL_LISTS = frozenset({"by", "without", "on", "ignoring", "group_left", "group_right"})
_WORDS = _LABEL_LISTS | {"and", "or", "unless", "offset", "bool", "atan2", "inf", "nan"}
"""Words of the language; they are the same in capitals."""

_RANGE = re.compile(r"\[\s*((?:[0-9]+(?:ms|[smhdwy]))+)\s*(?::|\])")
_DURATION = re.compile(r"([0-9]+)(ms|[smhdwy])")
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800, "y": 31536000}

_SUFFIXES = ("_bucket", "_sum", "_count", "_total", "_created", "_info")
"""What a family's series are called beside its own name (OpenMetrics 1.0, section 4)."""


def unknown_placeholders(query: str) -> tuple[str, ...]:
    """Names in braces that stand for nothing."""
    return tuple(name for name in _PLACEHOLDER.findall(query) if name not in KNOWN)


def is_about_one_arm(query: str) -> bool:
    """Whether a query tells the arms apart at all."""
    return any(name in KNOWN for name in _PLACEHOLDER.findall(query))


def fill(query: str, values: Mapping[str, str]) -> str:
    """The query with its placeholders replaced; values are escaped as in a PromQL string."""

    def value(match: re.Match[str]) -> str:
        return values[match[1]].replace("\\", "\\\\").replace('"', '\\"')

    return _PLACEHOLDER.sub(value, query)


def longest_range_s(query: str) -> float:
    """Seconds that the longest range of a query reaches back; 0 without one."""
    texts = [match[1] for match in _RANGE.finditer(_without_texts(query))]
    return max((_seconds(text) for text in texts), default=0.0)


def _seconds(text: str) -> float:
    return sum(int(number) * _SECONDS[unit] for number, unit in _DURATION.findall(text))


def _without_texts(query: str) -> str:
    return re.sub(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|`[^`]*`', '""', query)


def metric_names(query: str) -> tuple[str, ...]:
    """Names of the metrics that a query reads, each once, in order."""
    return tuple(dict.fromkeys(_metric_names(query)))


def _metric_names(query: str) -> Iterator[str]:
    tokens = [(m.lastgroup, m[0]) for m in _TOKEN.finditer(query) if m.lastgroup != "comment"]
    depth = labels_until = 0
    inside = ""
    for index, (kind, text) in enumerate(tokens):
        following = tokens[index + 1][1] if index + 1 < len(tokens) else ""
        if text in ("{", "["):
            inside = text
        elif text in ("}", "]"):
            inside = ""
        elif text == "(":
            depth += 1
        elif text == ")":
            depth -= 1
            labels_until = 0 if depth < labels_until else labels_until
        elif kind == "name" and inside == "{":
            yield from _named_by_label(tokens[index : index + 3])
        elif kind == "name" and not inside and not labels_until:
            if text.lower() in _LABEL_LISTS and following == "(":
                labels_until = depth + 1
            elif text.lower() not in _WORDS and not _calls(tokens, index):
                yield text


def _named_by_label(tokens: list[tuple[str | None, str]]) -> Iterator[str]:
    """The name in `{__name__="name"}`; patterns name nothing for certain."""
    words = [text for _, text in tokens]
    if len(words) == 3 and words[0] == "__name__" and words[1] == "=" and words[2][0] in "\"'`":
        yield words[2][1:-1]


def _calls(tokens: list[tuple[str | None, str]], index: int) -> bool:
    """Whether a name is a function or an aggregation: a bracket or a list of labels follows it."""
    following = tokens[index + 1][1].lower() if index + 1 < len(tokens) else ""
    return following in ("(", "by", "without")


def families(name: str) -> tuple[str, ...]:
    """Names under which metadata may know a metric: its own, and its family's."""
    short = [name.removesuffix(suffix) for suffix in _SUFFIXES if name.endswith(suffix)]
    return (name, *short)
