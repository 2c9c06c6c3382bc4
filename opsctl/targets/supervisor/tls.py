"""Certificate files of the front door: bundled for HAProxy, and pushed again when they change.

The last good pair is kept, so that a renewal that goes wrong shuts no door.
"""

from __future__ import annotations

import hashlib
import os
import ssl
import time
from pathlib import Path

from opsctl import certificates
from opsctl.errors import ConfigError
from opsctl.files import write_atomically
from opsctl.model import Finding
from opsctl.targets.supervisor import runtime_api
from opsctl.targets.supervisor.events import Tell
from opsctl.targets.supervisor.run_settings import RunSettings

STAYS = "the last good certificate stays in force"

AGAIN_S = 60.0
"""After which files with a problem are looked at again: a certificate may begin to hold."""


class FrontCertificate:
    """The certificate of the front door: the newest good one, in `path` for HAProxy to read."""

    def __init__(self, path: Path, tell: Tell) -> None:
        self.problem = ""
        """Why the files are not in force, or should not be; empty when all is well."""
        self._path = path
        self._tell = tell
        self._seen: tuple[int, ...] = ()
        self._looked_at = float("-inf")

    def prepare(self, settings: RunSettings) -> None:
        """Have a pair ready for a HAProxy that starts. Raises ConfigError when there is none."""
        problem = ""
        if settings.tls:
            self._seen = fingerprint(settings)
            text, problem = best(settings, self._path)
            keep(text, self._path)
        self._note(problem)

    def must_look(self, settings: RunSettings) -> bool:
        """Whether the files have changed, or had a problem some time ago."""
        overdue = self.problem and time.monotonic() - self._looked_at > AGAIN_S
        return settings.tls and bool(overdue or fingerprint(settings) != self._seen)

    async def renew(self, settings: RunSettings) -> None:
        """Put the files in force in the running HAProxy. Raises TargetUnreachable."""
        self._looked_at = time.monotonic()
        seen = fingerprint(settings)
        problem = await push(settings, self._path)
        # Only now: what HAProxy did not hear is tried again.
        self._seen = seen
        if not problem:
            self._tell("", "certificate renewed at the front door")
        self._note(problem)

    def _note(self, problem: str) -> None:
        if problem and problem != self.problem:
            self._tell("", problem)
        self.problem = problem


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
            f"cannot read {error.filename}",
            why=error.strerror or "",
            next_step=f"See {settings.section}.tls.",
        ) from error
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # Without an answer to its question OpenSSL would ask for a password on the terminal.
        context.load_cert_chain(settings.tls_certificate, settings.tls_private_key, lambda: "")
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{settings.tls_certificate} and {settings.tls_private_key} can't be used",
            why=str(error),
            next_step=f"See {settings.section}.tls: both must be PEM files that belong together.",
        ) from error
    return "\n".join(line for line in f"{chain}\n{key}".splitlines() if line.strip()) + "\n"


def best(settings: RunSettings, kept: Path) -> tuple[str, str]:
    """The pair to serve with, as one PEM, and what is wrong with the files, if anything.

    Files that can't be used, or are out of date, give way to the last good pair, in `kept`.
    Raises ConfigError when there is none.
    """
    try:
        text, problem = bundle(settings), _untimely(settings)
    except ConfigError as error:
        old = _usable(kept)
        if not old:
            raise
        return old, f"{STAYS}: {error}"
    if problem and _in_time(kept):
        return _usable(kept), f"{STAYS}: {problem}"
    return text, problem


def keep(text: str, path: Path) -> None:
    """Write a pair where HAProxy reads it, readable by us alone."""
    if _usable(path) != text:
        write_atomically(path, text, mode=0o600)


async def push(settings: RunSettings, path: Path) -> str:
    """Put changed files in force in the running HAProxy; what is wrong with them, if anything.

    A pair that does not fit together (one file may be written before the other) changes nothing.
    Raises TargetUnreachable when HAProxy does not hear it.
    """
    try:
        text, problem = best(settings, path)
    except ConfigError as error:
        return str(error)
    wanted = _fingerprint_of(text)
    answer = await runtime_api.command([f"set ssl cert {path.name} <<\n{text}"])
    committed = await runtime_api.command([f"commit ssl cert {path.name}"])
    shown = await runtime_api.command([f"show ssl cert {path.name}"])
    if wanted not in shown:
        await runtime_api.command([f"abort ssl cert {path.name}"])
        said = " ".join(f"{answer} {committed}".split())
        return f"{STAYS}: HAProxy says: {said}"
    keep(text, path)
    return problem


def finding(certificate: Path, private_key: Path, key: str) -> Finding:
    """Whether clients will take the pair that `key` of opsctl.yaml names."""
    advice = f"Renew the files of {key}; once a release serves they are put in force by themselves."
    try:
        judged = certificates.judged(certificates.of_files(certificate, private_key))
    except (OSError, ValueError) as error:
        said = f"{certificate} and {private_key} can't be used: {error}"
        return Finding("certificate", "fail", said, f"See {key}: PEM files that belong together.")
    said = f"{certificate}: {judged.what}"
    return Finding("certificate", judged.status, said, advice if judged.status != "ok" else "")


def _untimely(settings: RunSettings) -> str:
    """Why clients refuse a pair that can be loaded; empty when they don't."""
    try:
        found = certificates.of_files(
            Path(settings.tls_certificate), Path(settings.tls_private_key)
        )
    except (OSError, ValueError) as error:
        return f"clients can't use {settings.tls_certificate}: {error}"
    judged = certificates.judged(found)
    return judged.what if judged.status == "fail" else ""


def _in_time(kept: Path) -> bool:
    try:
        return certificates.judged(certificates.of_files(kept, kept)).status != "fail"
    except (OSError, ValueError):
        return False


def _usable(kept: Path) -> str:
    """The pair that was kept; empty when there is none, or none that can be loaded."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(kept, password=lambda: "")
        return kept.read_text()
    except (OSError, ValueError):
        return ""


def _fingerprint_of(text: str) -> str:
    """SHA-1 of the first certificate, as `show ssl cert` prints it."""
    end = text.index(ssl.PEM_FOOTER) + len(ssl.PEM_FOOTER)
    first = text[text.index(ssl.PEM_HEADER) : end]
    return hashlib.sha1(ssl.PEM_cert_to_DER_cert(first)).hexdigest().upper()
