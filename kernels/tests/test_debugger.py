"""Debug sessions, the profiling decorator and tensor checks."""

import logging

import numpy as np
import pytest
from ascend_ops.build_record import read_build_record

if not read_build_record().tensorflow_version:
    pytest.skip("ascend-ops was built without TensorFlow", allow_module_level=True)

import tensorflow as tf
from ascend_ops import debugger


def settings() -> tuple[bool, bool, object]:
    """The global switches that a session changes."""
    return (
        tf.debugging.get_log_device_placement(),
        tf.config.get_soft_device_placement(),
        tf.config.optimizer.get_jit(),
    )


def test_a_session_switches_and_puts_back_what_was() -> None:
    before = settings()
    options = debugger.DebugOptions(soft_placement=False, log_level=logging.ERROR)
    with debugger.debug_session(options) as logger:
        assert settings()[:2] == (True, False)
        assert logger.level == logging.ERROR
    assert settings() == before


def test_an_error_is_logged_with_its_traceback_and_passes_through(
    caplog: pytest.LogCaptureFixture,
) -> None:
    before = settings()
    with pytest.raises(KeyError), debugger.debug_session():
        raise KeyError("lost")
    assert settings() == before
    record = caplog.records[-1]
    assert record.message == "the debug session ends with an error"
    assert record.exc_info is not None


def test_the_handler_is_added_once() -> None:
    handlers = [len(debugger.get_logger().handlers) for _ in range(3)]
    assert handlers[0] == handlers[2]


def test_profiling_keeps_name_documentation_and_result(caplog: pytest.LogCaptureFixture) -> None:
    @debugger.profiled
    def double(x: int) -> int:
        """Twice x."""
        return 2 * x

    debugger.get_logger(logging.INFO)
    assert (double(4), double.__name__, double.__doc__) == (8, "double", "Twice x.")
    assert "double took" in caplog.text


def test_what_cannot_be_called_is_refused_when_it_is_given() -> None:
    with pytest.raises(TypeError, match=r"^profiled: 3 cannot be called\. Give it the function"):
        debugger.profiled(3)  # type: ignore[arg-type]


def test_profiling_logs_a_failure_and_raises_it(caplog: pytest.LogCaptureFixture) -> None:
    @debugger.profiled
    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fail()
    assert "fail failed after" in caplog.text
    assert "ValueError: no" in caplog.text


def test_a_tensors_bad_values_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    report = debugger.check_tensor(tf.constant([[1.0, np.nan, -3.0], [np.inf, -np.inf, 2.0]]), "x")
    assert (report.shape, report.dtype, report.nan_count, report.inf_count) == (
        (2, 3),
        "float32",
        1,
        2,
    )
    assert (report.minimum, report.maximum, report.finite) == (-3.0, 2.0, False)
    assert report.device.endswith("CPU:0")
    assert "x: 1 NaN and 2 infinite of 6 values" in caplog.text


def test_empty_integer_and_text_tensors() -> None:
    assert debugger.check_tensor(tf.zeros((0, 3))).minimum is None
    assert debugger.check_tensor([1, 2]).finite
    assert debugger.check_tensor(tf.constant([np.nan], tf.bfloat16)).nan_count == 1
    with pytest.raises(TypeError, match="x has dtype string; it must be a number"):
        debugger.check_tensor("text", "x")


def test_a_tensor_of_a_graph_is_refused_with_what_to_do() -> None:
    function = tf.function(lambda x: debugger.check_tensor(x, "x"))
    with pytest.raises(TypeError, match=r"x is a tensor of a graph .* outside tf\.function"):
        function(tf.zeros(3))
