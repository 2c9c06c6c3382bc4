"""A list of files that grow too long, before they are refused."""

from __future__ import annotations

import pytest

from tests.tidy import sources

FILE_LINES_WANTED = 350


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the source files over 350 lines; over 500 they fail a test."""
    for path in sources.tracked_files():
        if path.suffix in (".py", ".cpp", ".h"):
            lines = path.read_text().count("\n")
            if lines > FILE_LINES_WANTED:
                terminalreporter.write_line(f"long file: {sources.place(path)}, {lines} lines")
