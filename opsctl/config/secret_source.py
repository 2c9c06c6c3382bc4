"""Where a secret's value comes from."""

from __future__ import annotations

from opsctl.config.fields import Section, key, section


@section
class SecretSource(Section):
    """Where a secret's value comes from; exactly one key."""

    env: str | None = key(None, doc="Name of an environment variable of opsctl's own.")
    file: str | None = key(None, doc="Path of a file whose content is the value.")
    command: tuple[str, ...] = key((), doc="Command whose standard output is the value.")
