"""The documentation of opsctl.yaml, made from the declared settings: YAML, text and Markdown."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

from opsctl.config.fields import Section
from opsctl.config.keys import Key, find, keys_of, walk
from opsctl.config.settings import Config
from opsctl.config.yaml_text import as_item, block, flow, indented, plain, under

WIDTH = 96
"""Columns of a comment."""

_NAMES = {"services": "web", "environments": "production", "secrets": "API_TOKEN"}
"""Names that stand for those which users choose."""

_HEAD = """\
# opsctl.yaml: what opsctl deploys, where and how. Every key is here.
# Lines that begin with `# ` explain the key below; `#key: value` is a key with its default (or an
# example, where there is no default): delete the `#` to set it. Times are in seconds (_s), shares
# in percent. `opsctl config docs KEY` explains one key, `opsctl config show` tells what is in
# force, `opsctl config validate` checks this file.
"""

REFERENCE_VALUES: Mapping[str, Any] = {
    "services": {
        "web": {
            "app": {
                "directory": "app",
                "command": ["{python}", "main.py", "--port", "{port}"],
            }
        }
    }
}
"""The shortest working file: what `reference.yaml` sets."""


def reference_yaml(values: Mapping[str, Any] = REFERENCE_VALUES) -> str:
    """An opsctl.yaml with every key explained: those in `values` (plain data) set, others
    commented out with their default.
    """
    return _HEAD + "\n" + "\n".join(_section(Config, values, "")) + "\n"


def document(key: str | None, *, markdown: bool = False) -> str:
    """What `opsctl config docs [KEY]` prints: the key and all below it. Raises ConfigError."""
    if markdown:
        return _markdown(key)
    if key is None:
        return reference_yaml()
    found = find(key)
    return "\n".join([f"# {found.path}", *_key(found, None, shown_set=True)]) + "\n"


def _section(section: type[Section], values: Mapping[str, Any], path: str) -> list[str]:
    """All keys of a section: set ones as they are, others commented out."""
    lines: list[str] = []
    for key in keys_of(section, path):
        is_set = key.name in values
        key_lines = _key(key, values.get(key.name), shown_set=is_set)
        if is_set:
            lines += key_lines
            continue
        # The explanation stays a comment; what follows gets the mark that users delete.
        count = len(_explanation(key))
        lines += key_lines[:count] + [f"#{line}" for line in key_lines[count:]]
    return lines


def _key(key: Key, value: Any, *, shown_set: bool) -> list[str]:
    """A key's explanation and its value; without a value the default or an example."""
    head = f"{key.name}:"
    if key.section is None:
        return [*_explanation(key), *_plain_value(head, key, value, shown_set)]
    body = _nested(key, key.section, value)
    return [*_explanation(key), head, *indented(body)]


def _plain_value(head: str, key: Key, value: Any, shown_set: bool) -> list[str]:
    if shown_set and value is not None:
        return under(head, plain(value))
    default = plain(key.default)
    if key.required or (default in (None, [], {}) and key.info.example is not None):
        default = plain(key.info.example)
    return under(head, default)


def _nested(key: Key, section: type[Section], value: Any) -> list[str]:
    """The lines below a key that holds sections."""
    given = plain(value) if value is not None else plain(key.default)
    if key.container == "one":
        return _section(section, given if value is not None else _required(section), key.path)
    if key.container == "map":
        named = given or {_NAMES[key.name]: {}}
        lines: list[str] = []
        for name, inner in named.items():
            annotated = not lines
            body = _section(section, inner, key.path) if annotated else block(inner)
            lines += [f"{flow(name)}:", *indented(body)]
        return lines
    items = given or [_required(section)]
    if value is None:
        items = [_without_defaults(section, item) for item in items]
    # Only the first item is explained: the others have the same keys.
    lines = as_item(_section(section, items[0], key.path))
    for item in items[1:]:
        lines += as_item(block(item))
    return lines


def _without_defaults(section: type[Section], item: Mapping[str, Any]) -> dict[str, Any]:
    """The keys that differ from their default: what a user would have written."""
    return {
        key.name: item[key.name]
        for key in keys_of(section)
        if key.name in item and (key.required or item[key.name] != plain(key.default))
    }


def _required(section: type[Section]) -> dict[str, Any]:
    """The required keys of a section with their examples (choices: the first)."""
    return {
        key.name: plain(key.info.example) if not key.info.choices else key.info.choices[0]
        for key in keys_of(section)
        if key.required
    }


def _explanation(key: Key) -> list[str]:
    text = f"{key.info.doc} ({_takes(key)})"
    return textwrap.wrap(
        text, WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False
    )


def _takes(key: Key) -> str:
    """What it takes and its default, in words."""
    if key.required:
        return f"{key.takes}; required"
    if key.section is not None:
        return f"{key.takes}; optional"
    default = flow(plain(key.default))
    return f"{key.takes}; default {default}"


def _markdown(key: str | None) -> str:
    """One table a section, in the order of the file."""
    if key is None:
        sections: list[tuple[str, type[Section]]] = [("opsctl.yaml", Config)]
        sections += [(one.path, one.section) for one in walk() if one.section]
    else:
        found = find(key)
        below = [one for one in walk(found.section, found.path) if one.section] if found.section \
            else []  # fmt: skip
        sections = [(found.path, found.section)] if found.section else []
        sections += [(one.path, one.section) for one in below if one.section]
        if not sections:
            return "\n".join([*_TABLE_HEAD, _row(found)]) + "\n"
    tables = [
        "\n".join([f"## {path}", "", (section.__doc__ or "").strip(), "", *_TABLE_HEAD,
                   *map(_row, keys_of(section))])
        for path, section in sections
    ]  # fmt: skip
    return "\n\n".join(tables) + "\n"


_TABLE_HEAD = ("| key | takes | default | meaning |", "| --- | --- | --- | --- |")


def _row(key: Key) -> str:
    if key.required:
        default = "required"
    elif key.section:
        default = "–"
    else:
        default = f"`{flow(plain(key.default))}`"
    cells = (f"`{key.name}`", key.takes, default, key.info.doc)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


if __name__ == "__main__":
    print(reference_yaml(), end="")
