"""Back end that runs a SavedModel with TensorFlow's C API."""

from __future__ import annotations

import os
from collections.abc import Mapping

from ascend_serving import tfproto
from ascend_serving.artifact import SAVED_MODEL_FILE
from ascend_serving.backend import Array, Arrays, BackendSettings
from ascend_serving.errors import BackendMissing, ModelBroken, OpLibraryError, from_canonical_code
from ascend_serving.oplibrary import OpLibrary, find_op_library, needs_op_library
from ascend_serving.signature import Signature, read_signatures
from ascend_serving.tfcapi import Binding, Session, TensorFlow, TensorFlowError


class TensorFlowBackend:
    """A SavedModel in a session; see `backend.Backend`."""

    name = "tensorflow"
    max_batch = None

    def __init__(self, session: Session, runtime: str, op_backend: str) -> None:
        self._session = session
        self.runtime = runtime
        self.op_backend = op_backend
        self.signatures: Mapping[str, Signature] = read_signatures(session.definition)
        self._bindings: dict[str, Binding] = {
            name: session.bind(session.definition.signature_def[name]) for name in self.signatures
        }

    def run(self, signature: str, inputs: Arrays) -> dict[str, Array]:
        try:
            return self._session.run(self._bindings[signature], inputs)
        except TensorFlowError as error:
            raise from_canonical_code(error.code, str(error)) from error

    def close(self) -> None:
        self._session.close()


def load(settings: BackendSettings) -> TensorFlowBackend:
    """Loads the custom-op library when the model needs it, then the SavedModel."""
    path = settings.artifact.path
    ops, trained_with = _read_header(settings)
    api = _open_tensorflow()
    op_backend = "none"
    if needs_op_library(ops):
        library = find_op_library(settings.op_library)
        _load_op_library(api, library)
        op_backend = library.op_backend
    try:
        session = api.load_saved_model(path, settings.threads)
        backend = TensorFlowBackend(session, f"tensorflow {api.version}", op_backend)
    except TensorFlowError as error:
        raise ModelBroken(
            f"cannot load the SavedModel {path}",
            f"TensorFlow {api.version} says: {error}",
            f"It was saved by TensorFlow {trained_with or 'of unknown version'}; "
            "export it again, or restore the folder from the release.",
        ) from error
    if not backend.signatures:
        raise ModelBroken(
            f"cannot serve the SavedModel {path}",
            "it has no signature with inputs and outputs",
            'Export it with signatures={"serving_default": …}.',
        )
    return backend


def _read_header(settings: BackendSettings) -> tuple[frozenset[str], str]:
    """The names of the ops that the model uses, and the TensorFlow that saved it.

    Read before TensorFlow is loaded, so that a file which is no SavedModel fails at once.
    """
    file = settings.artifact.path / SAVED_MODEL_FILE
    message = tfproto.SavedModel()
    try:
        message.ParseFromString(file.read_bytes())
    except Exception as error:  # protobuf's DecodeError has no stable import path
        raise ModelBroken(
            f"cannot read {file}",
            f"it is not a SavedModel ({error})",
            "The file is damaged or cut: copy or export the model again.",
        ) from error
    for graph in message.meta_graphs:
        info = graph.meta_info_def
        if "serve" in info.tags:
            return frozenset(op.name for op in info.stripped_op_list.op), info.tensorflow_version
    raise ModelBroken(
        f"cannot serve {file}",
        "it has no graph tagged 'serve'",
        "Export it with tf.saved_model.save or model.export.",
    )


def _open_tensorflow() -> TensorFlow:
    # Errors only: the answer to a request carries TensorFlow's message already.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    try:
        return TensorFlow()
    except OSError as error:
        raise BackendMissing(
            "cannot start TensorFlow",
            str(error),
            "Install tensorflow-cpu (see pyproject.toml) for this Python, then start again.",
        ) from error


def _load_op_library(api: TensorFlow, library: OpLibrary) -> None:
    """Loads the library, unless its record says that it does not fit: then it could crash."""
    next_step = (
        "Build and install ascend-ops against the TensorFlow that is installed here, "
        "then start again."
    )
    if library.built_for and library.built_for != api.version:
        raise OpLibraryError(
            f"refusing the custom-op library {library.path}",
            f"it was built for TensorFlow {library.built_for} and this is {api.version}; "
            "TensorFlow's C++ interface changes with each version",
            next_step,
        )
    try:
        api.load_library(library.path)
    except TensorFlowError as error:
        raise OpLibraryError(
            f"cannot load the custom-op library {library.path}",
            f"it was built for another TensorFlow than {api.version}, or is damaged ({error})",
            next_step,
        ) from error
