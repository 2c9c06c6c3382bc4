"""Which URLs of opsctl.yaml a request can be sent to."""

from __future__ import annotations

import re
from collections.abc import Iterable

HOST_MAX = 253
"""Characters of a host's name (RFC 1035 with its dots, as text)."""

PORT_MAX = 65535

_LABEL = r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
"""One part of a name, 63 characters at most; containers have names with underscores."""

_AUTHORITY = re.compile(
    r"((?P<user>[!-.0-9:;=_~A-Za-z]*)@)?(\[(?P<v6>[^\]]*)\]|(?P<name>[^:]*))(:(?P<port>[0-9]*))?"
)


def url_problem(
    url: str, *, schemes: Iterable[str] = ("http", "https"), credentials_in: str = ""
) -> str:
    """Why no request can go to `url`; empty when it is well formed (RFC 3986).

    `credentials_in` names the key that a name and password belong in, when not in the URL.
    """
    scheme, found, rest = url.partition("://")
    allowed = tuple(schemes)
    if not found or scheme not in allowed:
        return f"allowed: {' or '.join(f'{one}://…' for one in allowed)}"
    if re.search(r"[^\x21-\x7e]", url):
        return "allowed: printable ASCII without spaces (other characters as %XX, hosts as xn--…)"
    if scheme == "file":
        return "" if rest.startswith("/") else "allowed: file:///PATH"
    authority = _AUTHORITY.fullmatch(re.split(r"[/?#]", rest, maxsplit=1)[0])
    if authority is None:
        return f"allowed: {scheme}://HOST or {scheme}://HOST:PORT, and a path"
    if authority["user"] is not None and credentials_in:
        return f"allowed: no name and password in it; they belong in `{credentials_in}`"
    return _host_problem(authority["v6"], authority["name"]) or _port_problem(authority["port"])


def host_problem(host: str) -> str:
    """Why `host` is neither a name nor an address; empty when it is one."""
    return "" if _is_address(host, 6) else _host_problem(None, host)


def _host_problem(v6: str | None, name: str | None) -> str:
    if v6 is not None:
        return "" if _is_address(v6, 6) else f"[{v6}] is no IPv6 address"
    labels = (name or "").removesuffix(".").split(".")
    if len(name or "") > HOST_MAX or not all(re.fullmatch(_LABEL, label) for label in labels):
        return f'"{name}" is no host'
    # A name whose last part is a number is read as an address everywhere.
    if labels[-1].isdigit() and not _is_address(".".join(labels), 4):
        return f'"{name}" is no IPv4 address'
    return ""


def _is_address(text: str, version: int) -> bool:
    import ipaddress  # most files name no address: the start stays quick

    try:
        return ipaddress.ip_address(text).version == version and "%" not in text
    except ValueError:
        return False


def _port_problem(port: str | None) -> str:
    if port is None or (port and 0 < int(port[:9]) <= PORT_MAX and len(port) < 6):
        return ""
    return f"port {port or '(empty)'} is none: 1 to {PORT_MAX}"
