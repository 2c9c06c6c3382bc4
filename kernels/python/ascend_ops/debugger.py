"""Looking into TensorFlow programs that use the operators: sessions, profiling, tensor checks."""

import functools
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

import numpy as np
import tensorflow as tf

P = ParamSpec("P")
R = TypeVar("R")

LOGGER_NAME = "ascend_ops"
_logger = logging.getLogger(LOGGER_NAME)


def get_logger(level: int = logging.INFO) -> logging.Logger:
    """The package's logger, with one handler to stderr however often it is asked for."""
    if not any(isinstance(handler, logging.StreamHandler) for handler in _logger.handlers):
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        _logger.addHandler(handler)
    _logger.setLevel(level)
    return _logger


@dataclass(frozen=True)
class DebugOptions:
    """What a debug session switches; `memory_growth` applies to devices not yet initialised."""

    log_device_placement: bool = True
    soft_placement: bool = True
    xla: bool = False
    memory_growth: bool = True
    log_level: int = logging.DEBUG


def _grow_memory() -> None:
    for device in tf.config.list_physical_devices():
        if device.device_type == "CPU":
            continue
        try:
            tf.config.experimental.set_memory_growth(device, True)
        except (RuntimeError, ValueError) as error:
            _logger.warning("memory growth of %s stays as it is: %s", device.name, error)


@contextmanager
def debug_session(options: DebugOptions | None = None) -> Iterator[logging.Logger]:
    """Switches device placement log, soft placement, XLA and log level, and puts them back.

    An exception inside is logged with its traceback and passes through.
    """
    chosen = options or DebugOptions()
    level = _logger.level
    placement = tf.debugging.get_log_device_placement()
    soft = tf.config.get_soft_device_placement()
    jit = tf.config.optimizer.get_jit()
    logger = get_logger(chosen.log_level)
    tf.debugging.set_log_device_placement(chosen.log_device_placement)
    tf.config.set_soft_device_placement(chosen.soft_placement)
    tf.config.optimizer.set_jit("autoclustering" if chosen.xla else False)
    if chosen.memory_growth:
        _grow_memory()
    try:
        yield logger
    except Exception:
        logger.exception("the debug session ends with an error")
        raise
    finally:
        tf.debugging.set_log_device_placement(placement)
        tf.config.set_soft_device_placement(soft)
        tf.config.optimizer.set_jit(jit or False)
        _logger.setLevel(level)


def profiled(function: Callable[P, R]) -> Callable[P, R]:
    """Logs how long each call takes; name, documentation and result stay those of `function`.

    A call that raises is logged with its traceback and its time, and raises the same.
    """
    if not callable(function):
        raise TypeError(
            f"profiled: {function!r} cannot be called. Give it the function itself, not a result"
        )

    @functools.wraps(function)
    def timed(*args: P.args, **kwargs: P.kwargs) -> R:
        start = time.perf_counter()
        try:
            result = function(*args, **kwargs)
        except Exception:
            elapsed_ms = (time.perf_counter() - start) * 1e3
            _logger.exception("%s failed after %.3f ms", function.__qualname__, elapsed_ms)
            raise
        elapsed_ms = (time.perf_counter() - start) * 1e3
        _logger.info("%s took %.3f ms", function.__qualname__, elapsed_ms)
        return result

    return timed


@dataclass(frozen=True)
class TensorReport:
    """What is in a tensor; `minimum` and `maximum` are over its finite values, if any."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    device: str
    nan_count: int
    inf_count: int
    minimum: float | None
    maximum: float | None

    @property
    def finite(self) -> bool:
        """Whether every value is a finite number."""
        return self.nan_count == 0 and self.inf_count == 0


def check_tensor(tensor: Any, name: str = "tensor") -> TensorReport:
    """Counts NaN and infinite values of an eager tensor, and logs a warning when there are any.

    Integers have none. Complex and string tensors are a TypeError, and so is a tensor of a graph,
    which has no values yet.
    """
    eager = tf.convert_to_tensor(tensor)
    if not hasattr(eager, "numpy"):
        raise TypeError(
            f"check_tensor: {name} is a tensor of a graph and has no values yet. Call it outside "
            "tf.function, or use tf.debugging.check_numerics inside"
        )
    if not (eager.dtype.is_floating or eager.dtype.is_integer or eager.dtype.is_bool):
        raise TypeError(f"check_tensor: {name} has dtype {eager.dtype.name}; it must be a number")
    values = np.asarray(eager.numpy(), np.float64)
    finite = values[np.isfinite(values)]
    report = TensorReport(
        name=name,
        shape=tuple(eager.shape),
        dtype=eager.dtype.name,
        device=eager.device,
        nan_count=int(np.isnan(values).sum()),
        inf_count=int(np.isinf(values).sum()),
        minimum=float(finite.min()) if finite.size else None,
        maximum=float(finite.max()) if finite.size else None,
    )
    if not report.finite:
        _logger.warning(
            "%s: %d NaN and %d infinite of %d values",
            name,
            report.nan_count,
            report.inf_count,
            values.size,
        )
    return report
