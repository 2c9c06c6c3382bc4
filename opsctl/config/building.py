"""Keys of opsctl.yaml about the service's image: `opsctl build` and `opsctl verify`."""

from __future__ import annotations

from collections.abc import Mapping

from opsctl.config.fields import Section, key, section
from opsctl.config.secret_source import SecretSource


@section
class Cann(Section):
    """CANN in an image of flavour `cann`."""

    version: str = key(doc="Version of CANN, a row of the matrix.", example="8.5.0")
    chip: str = key(
        doc="Chip that the kernels are for.", choices=("310p", "910", "910b", "950", "a3")
    )
    soc: str | None = key(
        None, doc="SOC_VERSION that operators are compiled for; default: the chip's first one."
    )
    driver: str | None = key(
        None, doc="Driver of the hosts; an image that needs another one is refused."
    )
    packages: str | None = key(
        None, doc="Folder of CANN's .run files; default: `build.base` has CANN already."
    )
    checksums: Mapping[str, str] = key(
        factory=dict,
        doc="SHA-256 of each .run file, by its name.",
        example={"Ascend-cann-toolkit_8.5.0_linux-x86_64.run": "0" * 64},
    )
    accept_eula: bool = key(
        False, doc="You have read and accept CANN's licence; its files are not installed without."
    )
    adapter: bool = key(
        False, doc="Through TensorFlow's adapter for Ascend, instead of the op library's own route."
    )


@section
class Sources(Section):
    """Where a build gets packages from. Nothing of it is in the image, nor part of its digest."""

    network: bool = key(True, doc="Whether steps of the build may use the network.")
    wheelhouse: str | None = key(None, doc="Folder of wheels; with it no package index is asked.")
    index: str | None = key(None, doc="URL of a Python package index.")
    apt_mirror: str | None = key(None, doc="URL of a Debian or Ubuntu mirror.")
    apt_proxy: str | None = key(None, doc="Proxy for apt alone.")
    proxy: str | None = key(None, doc="Proxy for everything in the build.")
    no_proxy: str | None = key(None, doc="Hosts that are asked directly, separated by commas.")
    ca_bundle: str | None = key(
        None, doc="PEM file of certificates to trust, as behind a proxy that opens TLS."
    )


@section
class Signing(Section):
    """Signature of images, made and checked with cosign."""

    private_key: str | None = key(
        None, doc="Private key file (cosign.key) that `build` signs with."
    )
    password: SecretSource | None = key(None, doc="Password of the private key.")
    public_key: str | None = key(
        None, doc="Public key file (cosign.pub): with it only images signed by its pair are used."
    )
    cosign: str = key("cosign", doc="cosign's binary (2.0 or newer).")


@section
class Vulnerabilities(Section):
    """Judgement of a scanner's report (JSON of grype or trivy)."""

    report: str | None = key(None, doc="The report's file; it must be about the image's digest.")
    fail_on: str = key(
        "critical",
        doc="Least severity that refuses an image.",
        choices=("low", "medium", "high", "critical"),
    )
    only_fixed: bool = key(False, doc="Whether only what has a fix counts.")
    ignore: tuple[str, ...] = key((), doc="Identifiers that are accepted, like CVE-2026-1234.")


@section
class Build(Section):
    """The service's image."""

    image: str = key(doc="Name of the image without a tag.", example="registry.example/team/app")
    base: str = key(
        doc="Image to start from, by digest.", example=f"debian:bookworm-slim@sha256:{'0' * 64}"
    )
    requirements: str = key(
        doc="Locked Python requirements, each with its hashes.", example="requirements.txt"
    )
    system: str = key(
        "debian-12", doc="Operating system of `base`.",
        choices=("debian-12", "debian-13", "openeuler-22.03", "openeuler-24.03", "ubuntu-18.04",
                 "ubuntu-20.04", "ubuntu-22.04", "ubuntu-24.04"),
    )  # fmt: skip
    flavour: str = key("cpu", doc="With or without CANN.", choices=("cpu", "cann"))
    architecture: str = key(
        "auto", doc="Processor; `auto`: this machine's.", choices=("auto", "x86_64", "aarch64")
    )
    python: str = key("3.11", doc="Python of the image; `base` or its distribution has it.")
    tensorflow: str | None = key(None, doc="TensorFlow; default: what `requirements` lock.")
    operators: str | None = key(
        None, doc="Folder of the op library's sources; without it the image has no operators."
    )
    extra_operators: tuple[str, ...] = key(
        (), doc="Folders of operators of your own, compiled into the op library."
    )
    operator_requirements: str | None = key(
        None, doc="Locked tools (with hashes) that compile operators: scikit-build-core, cmake…"
    )
    system_packages: tuple[str, ...] = key((), doc="Packages of the system that the service needs.")
    cann: Cann | None = key(None, doc="CANN, for flavour `cann`.")
    sources: Sources = key(factory=Sources, doc="Where packages come from.")
    secrets: Mapping[str, SecretSource] = key(
        factory=dict,
        doc="Secrets of the build: `pip.conf`, `apt.conf` and `sources.list`, for its steps.",
    )
    builder: str = key(
        "auto", doc="Name of a buildx builder, or the address of a buildkitd (unix://…, tcp://…)."
    )
    cache: str | None = key(
        None, doc="Name in a registry where the build's cache is read from and written to."
    )
    push: bool = key(True, doc="Push to the registry; false: the image stays with the engine.")
    timeout_s: float = key(3600.0, doc="Time limit of a build.", low=1)
    signing: Signing = key(factory=Signing, doc="Signature.")
    vulnerabilities: Vulnerabilities = key(
        factory=Vulnerabilities, doc="Judgement of a scanner's report."
    )
