"""Certificate files of the front door: bundled for HAProxy, and pushed again when they change."""

from __future__ import annotations

import hashlib
import os
import ssl
from pathlib import Path

from opsctl.errors import ConfigError
from opsctl.files import write_atomically
from opsctl.targets.supervisor import runtime_api
from opsctl.targets.supervisor.run_settings import RunSettings


def fingerprint(settings: RunSettings) -> tuple[int, ...]:
    """Changes whenever a certificate file is written or replaced; empty when one is missing."""
    try:
        stats = [os.stat(path) for path in (settings.tls_certificate, settings.tls_private_key)]
    except OSError:
        return ()
    return tuple(value for s in stats for value in (s.st_mtime_ns, s.st_ino, s.st_size))


def bundle(settings: RunSettings) -> str:
    """Certificate chain and key as one PEM, as HAProxy's `crt` wants it.

    Raises ConfigError when they can't be read or don't belong together.
    """
    try:
        chain = Path(settings.tls_certificate).read_text()
        key = Path(settings.tls_private_key).read_text()
    except OSError as error:
        raise ConfigError(
            f"cannot read {error.filename}", why=error.strerror or "", next_step="See local.tls."
        ) from error
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # Without an answer to its question OpenSSL would ask for a password on the terminal.
        context.load_cert_chain(settings.tls_certificate, settings.tls_private_key, lambda: "")
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{settings.tls_certificate} and {settings.tls_private_key} can't be used",
            why=str(error),
            next_step="See local.tls: both must be PEM files that belong together.",
        ) from error
    return "\n".join(line for line in f"{chain}\n{key}".splitlines() if line.strip()) + "\n"


def write_bundle(settings: RunSettings, path: Path) -> None:
    """Write the bundle, readable by us alone."""
    write_atomically(path, bundle(settings), mode=0o600)


async def push(settings: RunSettings, path: Path) -> str:
    """Put changed files in force in the running HAProxy; a sentence on what came of it.

    A pair that does not fit together (one file may be written before the other) changes nothing.
    """
    try:
        text = bundle(settings)
    except ConfigError as error:
        return f"certificate unchanged: {error}"
    wanted = _fingerprint_of(text)
    answer = await runtime_api.command([f"set ssl cert {path.name} <<\n{text}"])
    committed = await runtime_api.command([f"commit ssl cert {path.name}"])
    shown = await runtime_api.command([f"show ssl cert {path.name}"])
    if wanted not in shown:
        await runtime_api.command([f"abort ssl cert {path.name}"])
        said = " ".join(f"{answer} {committed}".split())
        return f"certificate unchanged: HAProxy says: {said}"
    write_atomically(path, text, mode=0o600)
    return "certificate renewed at the front door"


def _fingerprint_of(text: str) -> str:
    """SHA-1 of the first certificate, as `show ssl cert` prints it."""
    end = text.index(ssl.PEM_FOOTER) + len(ssl.PEM_FOOTER)
    first = text[text.index(ssl.PEM_HEADER) : end]
    return hashlib.sha1(ssl.PEM_cert_to_DER_cert(first)).hexdigest().upper()
