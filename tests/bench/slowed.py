"""The sample service with each prediction longer by a share of its own time, spent on the CPU.

python -m tests.bench.slowed 0.1 serve --model-path …
"""

from __future__ import annotations

import sys
import time
from typing import Any

from ascend_serving import __main__ as program
from ascend_serving.service import Service


def slow_down(share: float) -> None:
    """From now on predictions of this process take that much longer."""
    unhurried = Service.answer

    async def slowed(self: Service, decode: Any, encode: Any) -> Any:
        started = time.perf_counter()
        answer = await unhurried(self, decode, encode)
        end = time.perf_counter() + share * (time.perf_counter() - started)
        while time.perf_counter() < end:
            pass
        return answer

    Service.answer = slowed  # type: ignore[method-assign]  # what this program is for


if __name__ == "__main__":
    slow_down(float(sys.argv[1]))
    sys.exit(program.main(sys.argv[2:]))
