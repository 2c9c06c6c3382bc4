"""Keys of opsctl.yaml about TLS at the front door."""

from __future__ import annotations

from opsctl.config.fields import Section, key, section


@section
class Tls(Section):
    """TLS at the front door; files that change are reloaded without dropping a connection."""

    certificate: str = key(doc="PEM file: certificate chain.", example="tls/cert.pem")
    private_key: str = key(doc="PEM file: private key.", example="tls/key.pem")
