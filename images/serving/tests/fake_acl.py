"""pyACL without a device: the functions that backend_acl calls, with the rules it must keep.

Names, arguments and return values are pyACL's (application guide, Python API reference). "Device"
memory is host memory at an address. Every rule that CANN states and a real device would punish,
often only under load, is an assertion here: the context is current on the calling thread, one
model id is never executed by two threads at once, a copy stays inside its buffer, and everything
is freed once. The model takes `window` [batch, 3] float and `gain` [batch] half, and gives
`score` [batch] half = sum(window) · gain, and `anomaly` [batch] bool = score > 10.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
import types

import numpy as np

BATCH = 8
FLOAT, FLOAT16, BOOL = 0, 1, 12


class FakeAcl(types.ModuleType):
    """One process's ACL; `shapes` may be changed to make another model."""

    def __init__(self) -> None:
        super().__init__("acl")
        self.inputs = [("window", [BATCH, 3], FLOAT, 4), ("gain:0", [BATCH], FLOAT16, 2)]
        self.outputs = [
            ("Identity:0:score", [BATCH], FLOAT16, 2),
            ("Identity_1:1:anomaly", [BATCH], BOOL, 1),
        ]
        self.live: dict[int, object] = {}
        self.calls: list[str] = []
        self.config = None
        self.init_code = 0
        self.fail: dict[str, int] = {}
        self.executing: set[int] = set()
        self.most_at_once = 0
        self.hold = None
        self._handles = itertools.count(1000)
        self._local = threading.local()
        self._lock = threading.Lock()
        self.rt = _Namespace(self, "rt")
        self.mdl = _Namespace(self, "mdl")

    def new(self, value) -> int:
        handle = next(self._handles)
        self.live[handle] = value
        return handle

    def drop(self, handle: int, kind: type) -> int:
        assert isinstance(self.live.pop(handle), kind)
        return 0

    def need_context(self) -> None:
        assert getattr(self._local, "context", None) in self.live, "no context on this thread"

    def init(self, config=None) -> int:
        self.config = config
        return self.init_code

    def finalize(self) -> int:
        self.calls.append("finalize")
        return 0

    def get_recent_err_msg(self):
        return "EL0004: out of memory"

    def get_soc_name(self) -> str:
        return "Ascend910B1"

    def create_data_buffer(self, address: int, size: int) -> int:
        return self.new(_Buffer(address, size))

    def destroy_data_buffer(self, buffer: int) -> int:
        return self.drop(buffer, _Buffer)


class _Buffer:
    def __init__(self, address: int, size: int) -> None:
        self.address, self.size = address, size


class _Dataset(list):
    pass


class _Context:
    pass


class _Model:
    pass


class _Description:
    pass


class _Memory:
    def __init__(self, size: int) -> None:
        self.block = ctypes.create_string_buffer(b"\xff" * size, size)


class _Namespace:
    """acl.rt or acl.mdl: looks its functions up by prefix."""

    def __init__(self, acl: FakeAcl, prefix: str) -> None:
        self._acl, self._prefix = acl, prefix

    def __getattr__(self, name: str):
        function = globals()[f"_{self._prefix}_{name}"]

        def call(*arguments):
            full = f"{self._prefix}.{name}"
            self._acl.calls.append(full)
            if self._acl.fail.get(full):
                code = self._acl.fail[full]
                return (0, code) if name in ("load_from_file", "malloc") else code
            return function(self._acl, *arguments)

        return call


def _rt_set_device(acl, device):
    assert device == 3
    return 0


def _rt_reset_device(acl, device):
    assert device == 3
    return 0


def _rt_create_context(acl, device):
    handle = acl.new(_Context())
    acl._local.context = handle
    return handle, 0


def _rt_set_context(acl, context):
    assert isinstance(acl.live[context], _Context)
    acl._local.context = context
    return 0


def _rt_destroy_context(acl, context):
    return acl.drop(context, _Context)


def _rt_malloc(acl, size, policy):
    acl.need_context()
    memory = _Memory(size)
    address = ctypes.addressof(memory.block)
    acl.live[address] = memory
    return address, 0


def _rt_free(acl, address):
    return acl.drop(address, _Memory)


def _rt_memcpy(acl, target, target_size, source, size, kind):
    acl.need_context()
    assert size <= target_size
    device = acl.live[target if kind == 1 else source]
    assert size <= len(device.block)
    ctypes.memmove(target, source, size)
    return 0


def _mdl_load_from_file(acl, path):
    acl.need_context()
    assert path.endswith(".om")
    return acl.new(_Model()), 0


def _mdl_unload(acl, model):
    acl.need_context()
    return acl.drop(model, _Model)


def _mdl_create_desc(acl):
    return acl.new(_Description())


def _mdl_destroy_desc(acl, description):
    return acl.drop(description, _Description)


def _mdl_get_desc(acl, description, model):
    assert isinstance(acl.live[model], _Model)
    return 0


def _mdl_get_num_inputs(acl, description):
    return len(acl.inputs)


def _mdl_get_num_outputs(acl, description):
    return len(acl.outputs)


def _size(port):
    # Devices pad buffers; 32 bytes more than the tensor needs.
    return int(np.prod(port[1])) * port[3] + 32


def _mdl_get_input_size_by_index(acl, description, index):
    return _size(acl.inputs[index])


def _mdl_get_output_size_by_index(acl, description, index):
    return _size(acl.outputs[index])


def _dims(port):
    return {"name": port[0], "dimCount": len(port[1]), "dims": port[1]}, 0


def _mdl_get_input_dims(acl, description, index):
    return _dims(acl.inputs[index])


def _mdl_get_output_dims(acl, description, index):
    return _dims(acl.outputs[index])


def _mdl_get_input_data_type(acl, description, index):
    return acl.inputs[index][2]


def _mdl_get_output_data_type(acl, description, index):
    return acl.outputs[index][2]


def _mdl_create_dataset(acl):
    return acl.new(_Dataset())


def _mdl_destroy_dataset(acl, dataset):
    return acl.drop(dataset, _Dataset)


def _mdl_add_dataset_buffer(acl, dataset, buffer):
    acl.live[dataset].append(acl.live[buffer])
    return dataset, 0


def _mdl_execute(acl, model, inputs, outputs):
    acl.need_context()
    with acl._lock:
        assert model not in acl.executing, "one model id on two threads"
        acl.executing.add(model)
        acl.most_at_once = max(acl.most_at_once, len(acl.executing))
    if acl.hold is not None:
        acl.hold.wait(10)
    window = _view(acl.live[inputs][0], (BATCH, 3), ctypes.c_float, np.float32)
    gain = _view(acl.live[inputs][1], (BATCH,), ctypes.c_uint16, np.float16)
    score = window.sum(axis=1) * gain.astype(np.float32)
    _view(acl.live[outputs][0], (BATCH,), ctypes.c_uint16, np.float16)[:] = score
    _view(acl.live[outputs][1], (BATCH,), ctypes.c_uint8, np.bool_)[:] = score > 10
    with acl._lock:
        acl.executing.remove(model)
    return 0


def _view(buffer, shape, kind, dtype):
    block = (kind * int(np.prod(shape))).from_address(buffer.address)
    return np.frombuffer(block, dtype).reshape(shape)
