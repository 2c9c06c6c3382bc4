"""Keeps what native libraries print while they are loaded off the service's log."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator


@contextlib.contextmanager
def mute_native_stderr() -> Iterator[None]:
    """Sends file descriptor 2 nowhere; TensorFlow prints there when it is loaded, whatever the
    log level. Python's own stderr is only affected where it is descriptor 2 too."""
    kept = os.dup(2)
    try:
        with open(os.devnull, "wb") as nothing:
            os.dup2(nothing.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
