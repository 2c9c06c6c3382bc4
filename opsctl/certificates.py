"""Until when certificates hold, read by the TLS library itself.

Python tells the dates of a certificate that it has verified, and of authorities that it trusts.
So a certificate is shown to a client that trusts it alone and asks for no dates.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

ENDS_SOON_S = 14 * 86400.0
"""Renewal by machine comes 30 days before the end; what is this near was missed."""

NO_CHECK_TIME = 0x200000
"""X509_V_FLAG_NO_CHECK_TIME (X509_VERIFY_PARAM_set_flags(3)), which Python has no name for."""

Refused = ssl.SSLCertVerificationError
"""What a certificate raises that no client takes, whatever the date: it is for other purposes."""

ROUNDS_MAX = 10
"""Turns of both sides of a handshake; TLS 1.2 needs most of them, two each."""


@dataclass(frozen=True)
class Certificate:
    """Whom a certificate names, and from when to when it holds, seconds since the epoch."""

    name: str
    begins: float
    ends: float


@dataclass(frozen=True)
class Judgement:
    """Whether clients take certificates, now and for a while."""

    status: Literal["ok", "warn", "fail"]
    what: str


def of_files(certificate: Path, private_key: Path) -> tuple[Certificate, ...]:
    """What a server with these PEM files shows: its certificate, then its authorities'.

    Raises OSError (ssl.SSLError is one) or ValueError when no client could do anything with it.
    """
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # Without an answer to its question OpenSSL would ask for a password on the terminal.
    server.load_cert_chain(certificate, private_key, lambda: "")
    first, found, rest = certificate.read_text().partition(ssl.PEM_FOOTER)
    client = _trusting(first[first.index(ssl.PEM_HEADER) :] + found)
    return (_shown(server, client), *_authorities(rest))


def served(host: str, port: int, timeout_s: float) -> Certificate:
    """What a server shows. Raises OSError (ssl.SSLError is one) when it shows nothing of use."""
    client = _trusting(ssl.get_server_certificate((host, port), timeout=timeout_s))
    with (
        socket.create_connection((host, port), timeout_s) as plain,
        client.wrap_socket(plain) as connection,
    ):
        return _read(connection.getpeercert())


def judged(certificates: Sequence[Certificate], now: float | None = None) -> Judgement:
    """The server's own certificate is decisive; of its authorities clients may know newer ones."""
    now = time.time() if now is None else now
    own, *authorities = [_judged(one, now) for one in certificates]
    if own.status == "fail":
        return own
    for one in (own, *authorities):
        if one.status != "ok":
            return Judgement("warn", one.what)
    return own


def _judged(one: Certificate, now: float) -> Judgement:
    if now >= one.ends:
        return Judgement("fail", f"the certificate of {one.name} expired on {_day(one.ends)}")
    if now < one.begins:
        said = f"the certificate of {one.name} is not valid before {_day(one.begins)}"
        return Judgement("fail", said)
    if one.ends - now < ENDS_SOON_S:
        days = int((one.ends - now) // 86400)
        said = f"the certificate of {one.name} ends on {_day(one.ends)}, in {days} days"
        return Judgement("warn", said)
    return Judgement("ok", f"{one.name}, until {_day(one.ends)}")


def _day(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(at))


def _trusting(pem: str) -> ssl.SSLContext:
    """A client that takes this certificate alone, whomever it names and whenever it holds."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | NO_CHECK_TIME
    client.load_verify_locations(cadata=pem)
    return client


def _shown(server: ssl.SSLContext, client: ssl.SSLContext) -> Certificate:
    """What the client gets of the server, in memory."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    asks = client.wrap_bio(to_client, to_server)
    answers = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(ROUNDS_MAX):
        try:
            asks.do_handshake()
        except ssl.SSLWantReadError:
            _go_on(answers)
        else:
            return _read(asks.getpeercert())
    raise ssl.SSLError("the handshake does not end")


def _go_on(side: ssl.SSLObject) -> None:
    try:
        side.do_handshake()
    except ssl.SSLWantReadError:
        return


def _authorities(pem: str) -> tuple[Certificate, ...]:
    if ssl.PEM_HEADER not in pem:
        return ()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=pem[pem.index(ssl.PEM_HEADER) :])
    return tuple(map(_read, context.get_ca_certs()))


def _read(told: Any) -> Certificate:
    subject = {name: value for part in told["subject"] for name, value in part}
    others = [value for _, value in told.get("subjectAltName", ())]
    name = subject.get("commonName") or next(iter(others), "nobody")
    begins, ends = (ssl.cert_time_to_seconds(told[key]) for key in ("notBefore", "notAfter"))
    return Certificate(name, begins, ends)
