"""Certificates of any dates, made by the openssl command."""

from __future__ import annotations

import subprocess
import tempfile
import time
from pathlib import Path

SETTINGS = """\
[ca]
default_ca = here
[here]
serial = serial
database = index
new_certs_dir = .
default_md = sha256
policy = any
unique_subject = no
[any]
commonName = supplied
[server]
basicConstraints = CA:FALSE
extendedKeyUsage = serverAuth
[client]
extendedKeyUsage = clientAuth
[authority]
basicConstraints = critical,CA:TRUE
"""

DAY_S = 86400


def issue(
    folder: Path, name: str, *, days: float, from_days: float = -2, kind: str = "server"
) -> tuple[Path, Path]:
    """cert.pem and key.pem for `name`, from and until so many days from now, each put in place.

    `kind` is one of server, client (which no browser takes of a server) and authority.
    """
    now = time.time()
    begins, ends = (_written(now + day * DAY_S) for day in (min(from_days, days - 1), days))
    with tempfile.TemporaryDirectory() as place:
        made = Path(place)
        (made / "ca.cnf").write_text(SETTINGS)
        (made / "index").touch()
        (made / "serial").write_text("01")
        _openssl(
            made, "req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
            " -keyout key.pem -out request.pem -subj", f"/CN={name}",
        )  # fmt: skip
        _openssl(
            made, f"ca -batch -config ca.cnf -selfsign -keyfile key.pem -in request.pem"
            f" -out cert.pem -notext -startdate {begins} -enddate {ends} -extensions {kind}",
        )  # fmt: skip
        for file in ("key.pem", "cert.pem"):
            text = (made / file).read_text()
            (folder / f"{file}.new").write_text(text)
            (folder / f"{file}.new").replace(folder / file)
    return folder / "cert.pem", folder / "key.pem"


def _written(at: float) -> str:
    return time.strftime("%Y%m%d%H%M%SZ", time.gmtime(at))


def _openssl(folder: Path, words: str, *more: str) -> None:
    done = subprocess.run(
        ["openssl", *words.split(), *more], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
