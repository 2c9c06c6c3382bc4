"""Words that no command takes are refused by the command that got them, with its own help."""

from __future__ import annotations

import pytest

from opsctl.cli_parser import build_parser
from opsctl.errors import ConfigError


@pytest.mark.parametrize(
    ("line", "what", "helped_by"),
    [
        ("health r1", "opsctl health takes no r1", "opsctl health"),
        ("deploy --lock-wiat=5", "opsctl deploy takes no --lock-wiat=5 (did you mean --lock-wait?)",
         "opsctl deploy"),
        ("config validate x y", "opsctl config validate takes no x y", "opsctl config validate"),
        ("logs r1 -n 3", "opsctl logs takes no -n 3", "opsctl logs"),
        ("statu", 'argument COMMAND: there is no "statu" (did you mean "status"?)', "opsctl"),
    ],
)  # fmt: skip
def test_a_word_that_is_not_taken_is_told_with_the_help_of_its_command(
    line: str, what: str, helped_by: str
) -> None:
    words = line.split()
    with pytest.raises(ConfigError) as refused:
        build_parser(words).parse_args(words)
    assert (refused.value.what, refused.value.next_step) == (what, f"See: {helped_by} --help")
