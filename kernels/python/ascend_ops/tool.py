"""How the package's command-line tools answer: text for people, one JSON object for programs."""

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

from ascend_ops.errors import AscendOpsError, MissingModuleError


@dataclass(frozen=True)
class Answer:
    """What a tool found: a text, the same as plain values, and the exit code (opsctl's)."""

    outcome: str
    text: str
    data: Mapping[str, Any] = field(default_factory=dict)
    exit_code: int = 0


def require_modules(*names: str, extra: str) -> None:
    """MissingModuleError unless all can be imported; `extra` is the package's extra with them."""
    missing = [name for name in names if find_spec(name) is None]
    if missing:
        raise MissingModuleError(
            f"this needs {' and '.join(missing)}, which {sys.executable} does not have. Install "
            f"there: pip install 'ascend-ops[{extra}]', or choose another Python: --python PATH"
        )


def answer(call: Callable[[], Answer], *, as_json: bool) -> int:
    """Prints what `call` answers, or its error; the exit code.

    As JSON: `{"outcome", "text", …}`, and `{"outcome": "error", "message"}` for an error.
    """
    try:
        got = call()
    except AscendOpsError as error:
        if as_json:
            print(json.dumps({"outcome": "error", "message": str(error)}))
        else:
            print(error, file=sys.stderr)
        return error.exit_code
    if as_json:
        print(json.dumps({"outcome": got.outcome, "text": got.text, **got.data}))
    else:
        print(got.text)
    return got.exit_code
