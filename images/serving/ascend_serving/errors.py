"""Everything that can go wrong, as one tree.

    ServingError                 a message that says what, why and what to do next
    ├── StartError               the service cannot start; carries the exit code
    │   ├── UsageError           2   a wrong option
    │   ├── ModelMissing         66  nothing to serve at the path
    │   ├── ModelBroken          65  something is there, and it cannot be served
    │   ├── OpLibraryError       78  the custom-op library is missing or does not fit
    │   ├── BackendMissing       69  TensorFlow or pyACL is not installed
    │   ├── GrpcMissing          69  grpcio is not installed
    │   └── PortTaken            69  another process listens there
    └── RequestError             one request failed; carries the HTTP status
        ├── InvalidRequest       400
        ├── NotFound             404
        ├── TooLarge             413
        ├── Internal             500
        ├── Unimplemented        501
        ├── Unavailable          503 try again: `retry_after_s`
        └── DeadlineExceeded     504

Exit codes follow BSD sysexits.h (argparse's own 2 for usage). HTTP statuses follow TensorFlow
Serving's table from canonical status to HTTP (model_servers/http_server.cc, ToHTTPStatusCode).
"""

from __future__ import annotations

from typing import ClassVar


class ServingError(Exception):
    """Root of the tree."""


class StartError(ServingError):
    """The service cannot start; `exit_code` is the process's."""

    exit_code: ClassVar[int] = 70  # EX_SOFTWARE

    def __init__(self, what: str, why: str, next_step: str) -> None:
        super().__init__(f"{what}: {why}. {next_step}")


class UsageError(StartError):
    """An option has a wrong value."""

    exit_code = 2


class ModelMissing(StartError):
    """There is no model at the path."""

    exit_code = 66  # EX_NOINPUT


class ModelBroken(StartError):
    """What is at the path cannot be loaded or has no usable signature."""

    exit_code = 65  # EX_DATAERR


class OpLibraryError(StartError):
    """The custom-op library is missing, or was built for another TensorFlow."""

    exit_code = 78  # EX_CONFIG


class BackendMissing(StartError):
    """The back end's own library is not installed."""

    exit_code = 69  # EX_UNAVAILABLE


class GrpcMissing(StartError):
    """The library for the gRPC port is not installed."""

    exit_code = 69  # EX_UNAVAILABLE


class PortTaken(StartError):
    """The address cannot be listened on."""

    exit_code = 69  # EX_UNAVAILABLE


class RequestError(ServingError):
    """One request failed.

    `status` is the HTTP status; `kind` is the label of `inference_errors_total`: who has to act,
    the client, the operator (overload, time-out) or the developer of the service.
    """

    status: ClassVar[int] = 500
    kind: ClassVar[str] = "server"


class InvalidRequest(RequestError):
    """The client sent something that no retry will make right."""

    status = 400
    kind = "client"


class NotFound(RequestError):
    """No such model, version or path."""

    status = 404
    kind = "client"


class TooLarge(RequestError):
    """The body is larger than the service accepts."""

    status = 413
    kind = "client"


class Internal(RequestError):
    """The model or the device failed."""


class Unimplemented(RequestError):
    """The model uses a type that the JSON mapping does not have."""

    status = 501


class Unavailable(RequestError):
    """Overloaded, loading or stopping; the same request can succeed later or elsewhere."""

    status = 503
    kind = "rejected"

    def __init__(self, message: str, retry_after_s: int = 1) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class DeadlineExceeded(RequestError):
    """The answer was not ready within the request's time limit."""

    status = 504
    kind = "timeout"


# Canonical status codes: google/rpc/code.proto, used by TensorFlow's TF_Code.
_BY_CANONICAL_CODE: dict[int, type[RequestError]] = {
    3: InvalidRequest,  # INVALID_ARGUMENT
    4: DeadlineExceeded,
    5: NotFound,
    8: Unavailable,  # RESOURCE_EXHAUSTED: TensorFlow Serving says 429; a balancer retries a 503
    9: InvalidRequest,  # FAILED_PRECONDITION
    11: InvalidRequest,  # OUT_OF_RANGE
    12: Unimplemented,
    14: Unavailable,
}


def from_canonical_code(code: int, message: str) -> RequestError:
    """The request error for a canonical status `code` other than OK (0)."""
    return _BY_CANONICAL_CODE.get(code, Internal)(message)
