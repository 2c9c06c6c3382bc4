"""TensorFlow Serving's PredictionService over gRPC: Predict and GetModelMetadata.

Source: tensorflow/serving, apis/prediction_service.proto, predict.proto, get_model_metadata.proto
and servables/tensorflow/predict_util.cc. Requests take the same way as those of REST, through the
same batches. Status codes are the canonical ones that the HTTP statuses stand for.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import Any

import grpc
from grpc import StatusCode

from ascend_serving import tfproto
from ascend_serving.answers import Array
from ascend_serving.errors import (
    DeadlineExceeded,
    Internal,
    InvalidRequest,
    NotFound,
    PortTaken,
    RequestError,
    TooLarge,
    Unavailable,
    Unimplemented,
)
from ascend_serving.protocol import PredictRequest, find_signature, make_request
from ascend_serving.service import Service
from ascend_serving.signature import Signature, write_signature_map
from ascend_serving.tensors import read_tensor, write_tensor

_LOG = logging.getLogger(__name__)
_SERVICE = "tensorflow.serving.PredictionService"
_SIGNATURES = "signature_def"  # the one field of metadata that there is
_SIGNATURES_TYPE = "type.googleapis.com/tensorflow.serving.SignatureDefMap"
_CODES: dict[type[RequestError], StatusCode] = {
    InvalidRequest: StatusCode.INVALID_ARGUMENT,
    NotFound: StatusCode.NOT_FOUND,
    TooLarge: StatusCode.RESOURCE_EXHAUSTED,
    Internal: StatusCode.INTERNAL,
    Unimplemented: StatusCode.UNIMPLEMENTED,
    Unavailable: StatusCode.UNAVAILABLE,
    DeadlineExceeded: StatusCode.DEADLINE_EXCEEDED,
}


class GrpcServer:
    """A listening gRPC server; made by `open`."""

    def __init__(self, server: grpc.aio.Server) -> None:
        self._server = server

    @classmethod
    async def open(cls, service: Service) -> GrpcServer:
        """Listens on --host and --grpc-port. Raises `PortTaken`."""
        options = service.options
        limit_bytes = int(options.max_body_mb * 1e6)
        server = grpc.aio.server(
            options=[
                # Two servers on one port would share its clients without a word.
                ("grpc.so_reuseport", 0),
                ("grpc.max_receive_message_length", limit_bytes),
                ("grpc.max_send_message_length", -1),
            ]
        )
        server.add_generic_rpc_handlers((_handlers(PredictionApi(service, limit_bytes)),))
        host = f"[{options.host}]" if ":" in options.host else options.host
        try:
            port = server.add_insecure_port(f"{host}:{options.grpc_port}")
        except RuntimeError as error:
            raise PortTaken(
                f"cannot listen on {host}:{options.grpc_port}",
                "another process listens there, or it is no address of this machine",
                f"Stop what listens there (ss -ltnp 'sport = :{options.grpc_port}' names it) "
                "or set --grpc-port.",
            ) from error
        await server.start()
        service.grpc_address = (host, port)
        return cls(server)

    async def stop(self, limit_s: float) -> None:
        """Takes no new request; returns when those under way have ended, or are cut off."""
        await self._server.stop(limit_s)


class PredictionApi:
    """The two methods."""

    def __init__(self, service: Service, limit_bytes: int) -> None:
        self._service = service
        self._limit_bytes = limit_bytes
        release = service.options.release
        self._metadata = (("x-opsctl-release", release),) if release else ()

    async def predict(self, request: Any, context: Any) -> Any:
        """A PredictRequest's PredictResponse."""
        context.set_trailing_metadata(self._metadata)
        try:
            self._check_served(request.model_spec)
            decode = partial(_decode, request, self._limit_bytes)
            return await self._service.answer(decode, partial(self._encode, request))
        except RequestError as error:
            await self._refuse(context, error)
        except Exception as error:  # noqa: BLE001 — a client gets a status for any failure
            _LOG.exception("Predict")
            await self._refuse(context, Internal(f"{type(error).__name__}: {error}"))

    async def get_model_metadata(self, request: Any, context: Any) -> Any:
        """The signatures, as `metadata["signature_def"]`."""
        context.set_trailing_metadata(self._metadata)
        try:
            return self._describe(request)
        except RequestError as error:
            await self._refuse(context, error)

    def _describe(self, request: Any) -> Any:
        self._check_served(request.model_spec)
        if not request.metadata_field:
            raise InvalidRequest("GetModelMetadataRequest must specify at least one metadata_field")
        for field in request.metadata_field:
            if field != _SIGNATURES:
                raise InvalidRequest(f"Metadata field {field} is not supported")
        loaded = self._service.loaded
        if loaded is None:
            raise Unavailable("the model is still loading")
        answer = tfproto.GetModelMetadataResponse()
        self._name(answer.model_spec, "")
        packed = answer.metadata[_SIGNATURES]
        packed.type_url = _SIGNATURES_TYPE
        packed.value = write_signature_map(loaded.backend.signatures).SerializeToString()
        return answer

    def _check_served(self, spec: Any) -> None:
        if not spec.name:
            raise InvalidRequest("Missing ModelSpec.name")
        if spec.version_label:
            raise InvalidRequest(f"Unrecognized servable version label: {spec.version_label}")
        version = spec.version.value if spec.HasField("version") else None
        self._service.check_served(spec.name, version)

    def _encode(self, message: Any, request: PredictRequest, outputs: Mapping[str, Array]) -> Any:
        wanted = tuple(message.output_filter) or tuple(outputs)
        answer = tfproto.PredictResponse()
        self._name(answer.model_spec, request.signature.name)
        for name in wanted:
            if name not in outputs:
                raise InvalidRequest(
                    f"output tensor alias not found in signature: {name} "
                    f"Outputs expected to be in the set {{{','.join(sorted(outputs))}}}."
                )
            write_tensor(outputs[name], answer.outputs[name])
        return answer

    def _name(self, spec: Any, signature: str) -> None:
        spec.name = self._service.options.model_name
        spec.version.value = self._service.artifact.version
        spec.signature_name = signature

    async def _refuse(self, context: Any, error: RequestError) -> None:
        if error.status >= 500 and error.kind == "server":
            _LOG.error("gRPC: %s", error, exc_info=error.__cause__)
        code = next(_CODES[kind] for kind in type(error).__mro__ if kind in _CODES)
        await context.abort(code, str(error))


def _decode(message: Any, limit_bytes: int, signatures: Mapping[str, Signature]) -> PredictRequest:
    signature = find_signature(message.model_spec.signature_name, signatures)
    if message.inputs.keys() != signature.inputs.keys():
        raise InvalidRequest(
            f"the inputs are {{{','.join(sorted(message.inputs))}}} but the signature "
            f"{signature.name} takes {{{','.join(signature.inputs)}}}"
        )
    arrays = {
        name: read_tensor(message.inputs[name], tensor, limit_bytes)
        for name, tensor in signature.inputs.items()
    }
    return make_request(signature, arrays, in_rows=False)


def _serialize(message: Any) -> bytes:
    data: bytes = message.SerializeToString()
    return data


def _handlers(api: PredictionApi) -> Any:
    methods = {
        "Predict": (api.predict, tfproto.PredictRequest),
        "GetModelMetadata": (api.get_model_metadata, tfproto.GetModelMetadataRequest),
    }
    return grpc.method_handlers_generic_handler(
        _SERVICE,
        {
            name: grpc.unary_unary_rpc_method_handler(
                method,
                request_deserializer=kind.FromString,
                response_serializer=_serialize,
            )
            for name, (method, kind) in methods.items()
        },
    )
