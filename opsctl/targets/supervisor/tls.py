"""Certificate files of the front door: bundled for HAProxy, and pushed again when they change."""

from __future__ import annotations

import os
from pathlib import Path

from opsctl.errors import ConfigError
from opsctl.targets.supervisor import runtime_api
from opsctl.targets.supervisor.files import write_atomically
from opsctl.targets.supervisor.run_settings import RunSettings


def fingerprint(settings: RunSettings) -> tuple[int, ...]:
    """Changes whenever a certificate file is written or replaced; empty when one is missing."""
    try:
        stats = [os.stat(path) for path in (settings.tls_certificate, settings.tls_private_key)]
    except OSError:
        return ()
    return tuple(value for s in stats for value in (s.st_mtime_ns, s.st_ino, s.st_size))


def bundle(settings: RunSettings) -> str:
    """Certificate chain and key as one PEM, as HAProxy's `crt` wants it. Raises ConfigError."""
    try:
        chain = Path(settings.tls_certificate).read_text()
        key = Path(settings.tls_private_key).read_text()
    except OSError as error:
        raise ConfigError(
            f"cannot read {error.filename}", why=error.strerror or "", next_step="See local.tls."
        ) from error
    return "\n".join(line for line in f"{chain}\n{key}".splitlines() if line.strip()) + "\n"


def write_bundle(settings: RunSettings, path: Path) -> None:
    """Write the bundle, readable by us alone."""
    write_atomically(path, bundle(settings), mode=0o600)


async def push(settings: RunSettings, path: Path) -> str:
    """Put changed files in force in the running HAProxy; a sentence on what came of it.

    A pair that does not fit together is refused by HAProxy, and the old one stays.
    """
    try:
        text = bundle(settings)
    except ConfigError as error:
        return f"certificate unchanged: {error}"
    name = path.name
    answer = await runtime_api.command([f"set ssl cert {name} <<\n{text}"])
    if "Transaction" not in answer:
        return f"certificate unchanged: HAProxy says: {' '.join(answer.split())}"
    committed = await runtime_api.command([f"commit ssl cert {name}"])
    if "Success" not in committed:
        await runtime_api.command([f"abort ssl cert {name}"])
        return f"certificate unchanged: HAProxy says: {' '.join(committed.split())}"
    write_atomically(path, text, mode=0o600)
    return "certificate renewed at the front door"
