"""Dates of certificates, compared with those that the openssl command wrote into them."""

from __future__ import annotations

import datetime
import re
import shutil
import socket
import ssl
import subprocess
import threading
import time
from pathlib import Path

import pytest

from opsctl import certificates
from opsctl.certificates import Certificate, judged, of_files, served
from tests.certificates import DAY_S, issue

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is missing")


def told_by_openssl(certificate: Path) -> tuple[float, float]:
    done = subprocess.run(
        ["openssl", "x509", "-in", certificate, "-noout", "-dates"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    begins, ends = (
        datetime.datetime.strptime(text, "%b %d %H:%M:%S %Y GMT")
        .replace(tzinfo=datetime.UTC)
        .timestamp()
        for text in re.findall("=(.*)", done.stdout)
    )
    return begins, ends


@pytest.mark.parametrize("days", [-400, -1, 2, 30, 4000])
def test_dates_are_those_that_openssl_tells_whenever_they_are(tmp_path: Path, days: int) -> None:
    certificate, key = issue(tmp_path, "a.example", days=days)
    (found,) = of_files(certificate, key)
    assert (found.name, found.begins, found.ends) == ("a.example", *told_by_openssl(certificate))


def test_a_certificate_of_the_future_is_read_too(tmp_path: Path) -> None:
    certificate, key = issue(tmp_path, "a.example", days=30, from_days=3)
    (found,) = of_files(certificate, key)
    assert found.begins == told_by_openssl(certificate)[0]
    assert judged([found]).status == "fail"
    assert judged([found]).what.startswith("the certificate of a.example is not valid before ")


def test_authorities_in_the_chain_are_read_and_only_warn(tmp_path: Path) -> None:
    folder = tmp_path / "authority"
    folder.mkdir()
    authority, _ = issue(folder, "Some CA", days=-3, kind="authority")
    certificate, key = issue(tmp_path, "a.example", days=30)
    dates = told_by_openssl(certificate)
    certificate.write_text(certificate.read_text() + authority.read_text())
    found = of_files(certificate, key)
    assert found == (
        Certificate("a.example", *dates),
        Certificate("Some CA", *told_by_openssl(authority)),
    )
    # Clients may know a newer one of the same authority.
    assert judged(found).status == "warn"
    assert judged(found).what.startswith("the certificate of Some CA expired on ")


def test_the_judgement_turns_at_the_dates_and_fourteen_days_before_the_end() -> None:
    one = Certificate("a.example", 1000 * DAY_S, 1100 * DAY_S)
    early = ("fail", "the certificate of a.example is not valid before 1972-09-27 00:00 UTC")
    good = ("ok", "a.example, until 1973-01-05 00:00 UTC")
    soon = "the certificate of a.example ends on 1973-01-05 00:00 UTC"
    late = ("fail", "the certificate of a.example expired on 1973-01-05 00:00 UTC")
    at = {
        1000 * DAY_S - 1: early,
        1000 * DAY_S: good,
        1086 * DAY_S: good,
        1086 * DAY_S + 1: ("warn", f"{soon}, in 13 days"),
        1100 * DAY_S - 1: ("warn", f"{soon}, in 0 days"),
        1100 * DAY_S: late,
    }
    said = {now: judged([one], now) for now in at}
    assert {now: (one.status, one.what) for now, one in said.items()} == at


def test_what_is_no_pair_or_for_clients_only_is_refused(tmp_path: Path) -> None:
    certificate, key = issue(tmp_path, "a.example", days=30, kind="client")
    with pytest.raises(certificates.Refused, match="unsuitable certificate purpose"):
        of_files(certificate, key)
    key.write_text("no key")
    with pytest.raises(ssl.SSLError):
        of_files(certificate, key)
    with pytest.raises(FileNotFoundError):
        of_files(tmp_path / "none.pem", key)


@pytest.mark.parametrize("days", [-1, 30])
def test_what_a_server_shows_is_read_whenever_it_ends(tmp_path: Path, days: int) -> None:
    certificate, key = issue(tmp_path, "a.example", days=days)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        for _ in range(2):
            plain, _ = listener.accept()
            with context.wrap_socket(plain, server_side=True) as connection:
                connection.recv(1)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        found = served("127.0.0.1", listener.getsockname()[1], 30)
    finally:
        thread.join()
        listener.close()
    assert found == Certificate("a.example", *told_by_openssl(certificate))
    assert judged([found]).status == ("ok" if days > 0 else "fail")
    assert time.time() - found.ends < DAY_S + 3600
