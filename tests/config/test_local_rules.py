"""What is refused in the section of target `local`."""

from __future__ import annotations

import pytest

from tests.config.conftest import MINIMAL, Told

OTHER_FAULT = "wrong: 1"
"""So that there is an error to read in any case."""


@pytest.mark.parametrize("host", ["not a host", "a..b", "1.2.3", "::g", "[::1]", "http://a"])
def test_a_front_door_needs_an_address(told: Told, host: str) -> None:
    ((line, key, what),) = told(f'{MINIMAL}    local: {{host: "{host}"}}\n')
    assert (line, key) == (6, "services.web.local.host")
    assert what.endswith("allowed: an address of this machine, like 127.0.0.1")


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "0.0.0.0", "::", "::1", "localhost", "a.b-c.example"]
)
def test_addresses_and_names_are_taken(told: Told, host: str) -> None:
    found = told(f'{MINIMAL}    local: {{host: "{host}"}}\n{OTHER_FAULT}\n')
    assert [key for _, key, _ in found] == ["wrong"]


@pytest.mark.parametrize(
    ("state", "is_wrong"),
    [("app", True), ("./app/", True), (".", True), ("app/state", False), ("app2", False),
     (".opsctl", False), ("/var/lib/opsctl", False), ("~", True), ("~/state", True)],
)  # fmt: skip
def test_the_state_has_a_folder_of_its_own_that_can_be_found(
    told: Told, state: str, is_wrong: bool
) -> None:
    found = told(f'{MINIMAL}    local: {{state_dir: "{state}"}}\n{OTHER_FAULT}\n')
    assert "wrong" in [key for _, key, _ in found]
    assert ("services.web.local.state_dir" in [key for _, key, _ in found]) == is_wrong
