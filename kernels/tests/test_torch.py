"""The operators in PyTorch: values, derivatives, fake tensors, modules and errors.

Runs where PyTorch is; test_torch_root.py runs this file in the roots of scripts/torch-root.
"""

from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

if find_spec("torch") is None:
    pytest.skip("PyTorch is not installed in this environment", allow_module_level=True)

import torch
from ascend_ops import torch as ascend_torch
from ascend_ops.fused_ops import ACTIVATIONS
from ascend_ops.torch_modules import AscendEmbedding, AscendLinear, AscendSigmoid
from ascend_ops.torch_registration import HAS_CUSTOM_OP

# gradcheck and tensors of float32 do not go together by default: it wants double, which no NPU has.
pytestmark = pytest.mark.filterwarnings("ignore:Input #.*double precision:UserWarning")

OPS = torch.ops.ascend_c
DTYPES = ascend_torch.DTYPES
ULP = {torch.float32: 2.0**-23, torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7}
GRADCHECK: dict[str, Any] = {"eps": 1e-2, "atol": 2e-2, "rtol": 2e-2, "nondet_tol": 0.0}


def float_tensor(*shape: int, seed: int = 0, dtype: Any = torch.float32, grad: bool = False) -> Any:
    """Normal values."""
    values = torch.from_numpy(np.random.default_rng(seed).normal(size=shape))
    return values.to(dtype).requires_grad_(grad)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (7,), (100003,), (2, 3, 1, 2, 1, 2, 1, 2)], ids=str)
def test_sigmoid_is_that_of_float64_to_a_unit_in_the_last_place(
    shape: tuple[int, ...], dtype: Any
) -> None:
    x = float_tensor(*shape, dtype=dtype)
    y = OPS.sigmoid(x)
    exact = torch.sigmoid(x.double())
    assert y.dtype == dtype
    assert y.shape == shape
    assert ((y.double() - exact).abs() <= exact * ULP[dtype]).all()


def test_a_view_that_is_not_contiguous_gives_the_same_as_a_copy() -> None:
    x = float_tensor(40, 50).t()[::2]
    assert torch.equal(OPS.sigmoid(x), OPS.sigmoid(x.contiguous()))


@pytest.mark.parametrize("index_dtype", ascend_torch.INDEX_DTYPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_gather_add_relu_equals_the_three_ops(dtype: Any, index_dtype: Any) -> None:
    table = float_tensor(50, 3, 7, dtype=dtype)
    indices = torch.from_numpy(np.random.default_rng(1).integers(-50, 50, (40, 9))).to(index_dtype)
    for shape in ((3, 7), (40, 9, 3, 7)):
        addend = float_tensor(*shape, seed=2, dtype=dtype)
        got = OPS.gather_add_relu(table, indices, addend)
        # In float, as PyTorch 1.13 has no relu of half; the sum is rounded once all the same.
        exact = torch.relu(table.float()[indices.long()] + addend.float()).to(dtype)
        assert torch.equal(got, exact)


def test_embedding_dense_grad_sums_rows_by_index() -> None:
    grad = torch.arange(12.0).reshape(2, 3, 2)
    indices = torch.tensor([[3, 1, 3], [0, 3, 1]])
    table = OPS.embedding_dense_grad(grad, indices, 5, 1, False)
    assert table.tolist() == [[6, 7], [0, 0], [0, 0], [12, 15], [0, 0]]


def matrices(transposed: bool = False) -> tuple[Any, Any, Any]:
    """Two matrices and a bias; sums stay away from 0, where relu has no derivative."""
    a, b = float_tensor(3, 5, grad=True), float_tensor(5, 4, seed=1, grad=True)
    bias = torch.tensor([3.0, -9.0, 12.0, -15.0], requires_grad=True)
    if transposed:
        a, b = (matrix.detach().t().contiguous().requires_grad_(True) for matrix in (a, b))
    return a, b, bias


def cases() -> list[tuple[str, tuple[Any, ...]]]:
    """Each operator with arguments away from the points where it has no derivative."""
    indices = torch.tensor([[2, 0], [2, 1]])
    table = (torch.arange(12.0) % 5 - 1.5).reshape(3, 4).requires_grad_(True)
    return [
        ("sigmoid", (float_tensor(3, 4, grad=True),)),
        ("sigmoid_grad", (float_tensor(5, grad=True), float_tensor(5, seed=1, grad=True))),
        ("embedding_dense_grad", (float_tensor(2, 2, 4, grad=True), indices, 3, 0, False)),
        ("embedding_dense_grad", (float_tensor(2, 2, 4, grad=True), indices, 3, -1, True)),
        ("embedding", (float_tensor(3, 4, grad=True), indices, -1, False)),
        ("embedding", (float_tensor(3, 4, grad=True), indices, 1, True)),
        ("gather_add_relu", (table, indices - 3, torch.full((4,), 0.25, requires_grad=True))),
        ("gather_add_relu", (table, indices, torch.full((2, 2, 4), 0.25, requires_grad=True))),
        *[("matmul_bias_act", (*matrices(), name, False, False)) for name in ACTIVATIONS],
        ("matmul_bias_act", (*matrices(transposed=True), "sigmoid", True, True)),
    ]


CASES = cases()
NAMES = [name for name, _ in CASES]
# One backward pass drops padding and divides by the frequency, as torch.nn.Embedding's does: it is
# not the derivative of the forward pass.
DERIVED = [case for i, case in enumerate(CASES) if i != 5]


@pytest.mark.parametrize(("name", "arguments"), DERIVED)
def test_the_derivative_is_the_numerical_one(name: str, arguments: tuple[Any, ...]) -> None:
    assert torch.autograd.gradcheck(getattr(OPS, name), arguments, **GRADCHECK)


@pytest.mark.parametrize(
    "name", ["sigmoid", "sigmoid_grad", "embedding_dense_grad", "matmul_bias_act"]
)
def test_the_second_derivative_is_the_numerical_one(name: str) -> None:
    arguments = next(arguments for case, arguments in CASES if case == name)
    assert torch.autograd.gradgradcheck(getattr(OPS, name), arguments, **GRADCHECK)


@pytest.mark.skipif(
    not hasattr(torch.library, "opcheck"), reason="this PyTorch has no torch.library.opcheck"
)
@pytest.mark.parametrize(("name", "arguments"), CASES, ids=NAMES)
def test_opcheck_finds_nothing(name: str, arguments: tuple[Any, ...]) -> None:
    result = torch.library.opcheck(getattr(OPS, name), arguments)
    assert set(result.values()) == {"SUCCESS"}


@pytest.mark.parametrize(("name", "arguments"), CASES, ids=NAMES)
def test_a_meta_tensor_gets_the_shape_and_type_of_the_result(
    name: str, arguments: tuple[Any, ...]
) -> None:
    real = getattr(OPS, name)(*arguments)
    parts = [part.detach().to("meta") if torch.is_tensor(part) else part for part in arguments]
    fake = getattr(OPS, name)(*parts)
    assert (fake.device.type, fake.shape, fake.dtype) == ("meta", real.shape, real.dtype)


def both_layers(padding_idx: int | None, scale: bool) -> tuple[Any, Any]:
    """PyTorch's layer and this one with the same table."""
    native = torch.nn.Embedding(50, 8, padding_idx=padding_idx, scale_grad_by_freq=scale)
    ascend = AscendEmbedding(50, 8, padding_idx, scale_grad_by_freq=scale)
    ascend.load_state_dict(native.state_dict())
    return native, ascend


@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("padding_idx", [None, 7, -3])
def test_the_layer_s_gradient_reaches_the_weight_and_is_pytorch_s(
    padding_idx: int | None, scale: bool
) -> None:
    ids = torch.from_numpy(np.random.default_rng(2).integers(0, 50, (16, 10)))
    native, ascend = both_layers(padding_idx, scale)
    for layer in (native, ascend):
        layer(ids).square().sum().backward()
    assert torch.equal(native(ids), ascend(ids))
    torch.testing.assert_close(ascend.weight.grad, native.weight.grad, rtol=1e-5, atol=1e-6)
    assert ascend.weight.grad.abs().sum() > 0


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_matmul_equals_the_product_in_float64(activation: str, dtype: Any) -> None:
    a = float_tensor(33, 70, dtype=dtype)
    b, bias = float_tensor(45, 70, seed=1, dtype=dtype), float_tensor(45, seed=2, dtype=dtype)
    total = a.double() @ b.double().t() + bias.double()
    exact = {"none": total, "relu": torch.relu(total), "sigmoid": torch.sigmoid(total)}[activation]
    got = OPS.matmul_bias_act(a, b, bias, activation, False, True)
    # Sums of 70 products in float32, of size 10 and less, rounded once to the type.
    error = (got.double() - exact).abs()
    assert (error <= exact.abs() * ULP[dtype] + 70 * 2.0**-24 * 10).all()


@pytest.mark.parametrize("shape", [(6,), (3, 6), (2, 3, 6), (0, 6)], ids=str)
def test_the_linear_layer_is_pytorch_s_with_its_activation(shape: tuple[int, ...]) -> None:
    native, ascend = torch.nn.Linear(6, 4), AscendLinear(6, 4, "relu")
    ascend.load_state_dict(native.state_dict())
    x = float_tensor(*shape)
    torch.testing.assert_close(ascend(x), torch.relu(native(x)), rtol=1e-5, atol=1e-6)
    for layer in (native, ascend):
        (torch.relu(layer(x)) if layer is native else layer(x)).square().sum().backward()
    torch.testing.assert_close(ascend.weight.grad, native.weight.grad, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(ascend.bias.grad, native.bias.grad, rtol=1e-5, atol=1e-5)


def test_training_follows_pytorch() -> None:
    generator = np.random.default_rng(3)
    ids = torch.from_numpy(generator.integers(0, 50, (64, 10)))
    target = (ids < 25).float().mean(1, keepdim=True)
    losses = []
    for embedding, activation in zip(
        both_layers(None, False), (torch.nn.Sigmoid(), AscendSigmoid()), strict=True
    ):
        torch.manual_seed(5)
        head = torch.nn.Linear(8, 1)
        parameters = [*embedding.parameters(), *head.parameters()]
        optimizer = torch.optim.SGD(parameters, lr=0.5)
        for _ in range(20):
            optimizer.zero_grad()
            loss = (activation(head(embedding(ids).mean(1))) - target).square().mean()
            loss.backward()
            optimizer.step()
        losses.append(float(loss))
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


@pytest.mark.skipif(not HAS_CUSTOM_OP, reason="this PyTorch has no torch.export with custom ops")
def test_a_model_is_traced_with_the_op_in_it() -> None:
    from torch.fx.experimental.proxy_tensor import make_fx

    graph = make_fx(lambda x: OPS.sigmoid(x) * 2, tracing_mode="fake")(float_tensor(3))
    assert [str(node.target) for node in graph.graph.nodes][1] == "ascend_c.sigmoid.default"


def test_wrong_arguments_are_refused_with_what_to_do() -> None:
    indices = torch.tensor([0, 1])
    with pytest.raises(TypeError, match=r"dtype torch.float64 is not supported; cast to float32"):
        OPS.sigmoid(torch.zeros(3, dtype=torch.float64))
    with pytest.raises(TypeError, match=r"indices have dtype torch.float32; cast them to int32"):
        OPS.embedding(torch.zeros(3, 2), torch.zeros(2), -1, False)
    with pytest.raises(ValueError, match=r"one shape and dtype, not \(2,\) torch.float32 and"):
        OPS.sigmoid_grad(torch.zeros(2), torch.zeros(3))
    with pytest.raises(ValueError, match=r"shape \(3,\); it must have that of a row, \(2,\)"):
        OPS.gather_add_relu(torch.zeros(3, 2), indices, torch.zeros(3))
    with pytest.raises(ValueError, match=r"not the shape of the indices, \(2,\), and a width"):
        OPS.embedding_dense_grad(torch.zeros(3, 2), indices, 5, -1, False)
    with pytest.raises(ValueError, match=r"padding_idx is .*, which is not a row of the table"):
        OPS.embedding_dense_grad(torch.zeros(2, 2), indices, 5, 5, False)
    with pytest.raises(ValueError, match=r"they must be \[m, k\], \[k, n\]"):
        OPS.matmul_bias_act(torch.ones(2, 3), torch.ones(4, 5), torch.ones(5), "none", False, False)
    with pytest.raises(ValueError, match="no activation 'tanh'; use one of"):
        OPS.matmul_bias_act(torch.ones(2, 3), torch.ones(3, 5), torch.ones(5), "tanh", False, False)
    with pytest.raises(ValueError, match="AscendLinear: no activation 'tanh'"):
        AscendLinear(2, 3, "tanh")
    with pytest.raises(ValueError, match="padding_idx is 9, which is not a row of the table of 5"):
        AscendEmbedding(5, 2, 9)
    for sizes, wrong in (((-1, 2), "num_embeddings is -1"), ((5, 2.5), "embedding_dim is 2.5")):
        with pytest.raises(ValueError, match=f"{wrong}; it must be a whole number of at least 0"):
            AscendEmbedding(*sizes)
    with pytest.raises(ValueError, match="in_features is -3; it must be a whole number"):
        AscendLinear(-3, 2)


@pytest.mark.parametrize("index", [3, -4, 2**40])
def test_an_index_outside_the_table_is_refused(index: int) -> None:
    indices, table = torch.tensor([[0], [index]]), torch.zeros(3, 2)
    message = rf"index {index} at position 1 is outside the table of 3 rows"
    with pytest.raises(IndexError, match=message):
        OPS.gather_add_relu(table, indices, torch.zeros(2))
    with pytest.raises(IndexError, match=message):
        OPS.embedding(table, indices, -1, False)
    with pytest.raises(IndexError, match=message):
        OPS.embedding_dense_grad(torch.zeros(2, 1, 2), indices, 3, -1, False)
