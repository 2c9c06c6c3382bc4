"""What `depends_on` may name."""

from __future__ import annotations

from pathlib import Path

import pytest

from opsctl.config.load import load_document
from opsctl.errors import ConfigError

TEXT = """\
services:
  web:
    app: {directory: app, command: [x]}
    depends_on: %s
  api:
    app: {directory: app, command: [x]}
    depends_on: %s
"""


@pytest.mark.parametrize(
    ("web", "api", "told"),
    [
        ("[api, ap]", "[]", '4: services.web.depends_on[1]: there is no service "ap", did you'),
        ("[api]", "[web]", "4: services.web.depends_on: a circle: web → api → web"),
        ("[]", "[api]", "7: services.api.depends_on: a circle: api → api"),
    ],
)
def test_what_can_not_be_ordered_is_told_at_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, web: str, api: str, told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("opsctl.yaml").write_text(TEXT % (web, api))
    with pytest.raises(ConfigError) as caught:
        load_document(Path("opsctl.yaml"))
    assert str(caught.value).startswith(f"opsctl.yaml:{told}")
