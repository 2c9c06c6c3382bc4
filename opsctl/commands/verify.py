"""`opsctl verify`: prove what an image must be."""

from __future__ import annotations

from opsctl.commands.outcome import Outcome
from opsctl.config.settings import Project
from opsctl.console import Console
from opsctl.errors import PreflightRefused

REFUSED = PreflightRefused.exit_code


def verify(project: Project, console: Console, image: str | None) -> Outcome:
    """Every check of an image (default: the one that was built last); exit 4 when one says no."""
    from opsctl.images.layers import open_image
    from opsctl.images.policy import require_policy
    from opsctl.images.verify import Check, verify_image

    reference = image or _last(project)
    secrets = _secrets(project, console)
    with open_image(reference) as opened:
        pinned = _pinned(reference, opened.digest)
        cache = project.service_dir / "images" / "layers"
        checks = verify_image(opened, pinned, secrets, cache)
    try:
        admitted = require_policy(project, pinned)
        signed = ", ".join(admitted.signatures) or "none asked for (build.signing.public_key)"
        checks.append(Check("signature and policy", True, signed))
    except PreflightRefused as refusal:
        checks.append(Check("signature and policy", False, str(refusal)))
    wrong = [check for check in checks if not check.ok]
    lines = [f"{'ok  ' if check.ok else 'FAIL'}  {check.name}: {check.detail}" for check in checks]
    summary = f"{len(wrong)} of {len(checks)} checks say no" if wrong else "every check is passed"
    data = {
        "outcome": "refused" if wrong else "ok",
        "exit_code": REFUSED if wrong else 0,
        "image": pinned,
        "checks": [check.to_dict() for check in checks],
    }
    return Outcome(REFUSED if wrong else 0, data, "\n".join([*lines, f"{pinned}: {summary}"]))


def _last(project: Project) -> str:
    from opsctl.images.build import last_built

    built = last_built(project)
    if built is None:
        raise PreflightRefused(
            "no image was built here",
            next_step="Build one (opsctl build), or name one: opsctl verify IMAGE",
        )
    return built.reference


def _pinned(reference: str, digest: str) -> str:
    from opsctl.images.reference import parse

    if reference.startswith("sha256:") or "@" in reference or "/" not in reference:
        return reference
    return str(parse(reference).pinned(digest))


def _secrets(project: Project, console: Console) -> dict[str, str]:
    """Values that must not be found: of the build and of the service, as far as they are known."""
    from opsctl.redact import Redactor
    from opsctl.secrets import resolve_one

    service = project.service
    sources = dict(service.app.secrets)
    if service.build:
        sources |= service.build.secrets
        if service.build.signing.password:
            sources["signing.password"] = service.build.signing.password
    values: dict[str, str] = {}
    for name, source in sources.items():
        try:
            values[name] = resolve_one(name, source, project.root)
        except PreflightRefused:
            console.warn(f"the value of secret {name} is not known here: it is not looked for")
    console.redact = Redactor(values)
    return values
