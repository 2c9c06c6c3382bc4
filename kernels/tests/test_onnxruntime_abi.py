"""onnx/onnxruntime_abi.h, declared by hand, has the positions and the layout of the real header."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

KERNELS = Path(__file__).resolve().parent.parent
# Before the real header, so that both declare the same types; then each promise is checked.
PROGRAM = """
#include <cstddef>
#include <type_traits>
#include "onnx/onnxruntime_abi.h"
#include "onnxruntime_c_api.h"
namespace ort = ascend_ops::ort;
static_assert(ORT_API_VERSION >= ort::kApiVersion, "the header is older than what is asked for");
#define CHECK_CALL(name, position, result, arguments) \\
    static_assert(offsetof(OrtApi, name) == position * sizeof(void*), #name);
ASCEND_ORT_CALLS(CHECK_CALL)
#define CHECK_FIELD(name) \\
    static_assert(offsetof(OrtCustomOp, name) == offsetof(ort::CustomOp, name), #name);
CHECK_FIELD(version)
{fields}
static_assert(sizeof(ort::CustomOp) == offsetof(OrtCustomOp, GetMayInplace), "end of version 17");
static_assert(offsetof(OrtApiBase, GetApi) == offsetof(ort::ApiBase, GetApi), "GetApi");
static_assert(offsetof(OrtApiBase, GetVersionString) == offsetof(ort::ApiBase, GetVersionString),
              "GetVersionString");
static_assert(ort::kFloat == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, "float");
static_assert(ort::kInt32 == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32, "int32");
static_assert(ort::kInt64 == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64, "int64");
static_assert(ort::kFloat16 == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16, "float16");
static_assert(ort::kBfloat16 == ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16, "bfloat16");
static_assert(ort::kFail == ORT_FAIL && ort::kInvalidArgument == ORT_INVALID_ARGUMENT, "codes");
static_assert(INPUT_OUTPUT_REQUIRED == 0 && OrtMemTypeDefault == 0, "zeros");
// Calls whose arguments are no enumerations have the very types of the real ones, which promise
// besides to throw nothing.
template <typename T> struct MayThrow { using Type = T; };
template <typename R, typename... A>
struct MayThrow<R (*)(A...) noexcept> { using Type = R (*)(A...); };
#define CHECK_TYPE(name)                                                                 \\
    static_assert(std::is_same_v<MayThrow<std::decay_t<decltype(OrtApi::name)>>::Type,   \\
                                 decltype(ort::name(nullptr))>, #name)
CHECK_TYPE(CreateCustomOpDomain);
CHECK_TYPE(AddCustomOpDomain);
CHECK_TYPE(GetTensorMutableData);
CHECK_TYPE(GetDimensionsCount);
CHECK_TYPE(GetDimensions);
CHECK_TYPE(GetTensorTypeAndShape);
CHECK_TYPE(KernelInfoGetAttribute_int64);
CHECK_TYPE(KernelInfoGetAttribute_string);
CHECK_TYPE(KernelInfoGetConstantInput_tensor);
CHECK_TYPE(KernelContext_GetInput);
CHECK_TYPE(KernelContext_GetOutput);
CHECK_TYPE(ReleaseTensorTypeAndShapeInfo);
CHECK_TYPE(KernelContext_ParallelFor);
"""


@pytest.mark.long
@pytest.mark.timeout(1800)  # the first time on a machine it installs Debian
def test_the_declarations_are_those_of_the_real_header(
    torch_root: Callable[[str], Path], tmp_path: Path
) -> None:
    header = torch_root("trixie") / "usr/include/onnxruntime/onnxruntime_c_api.h"
    # Beside a copy of it alone: the root's other headers belong to another C library.
    (tmp_path / "onnxruntime_c_api.h").write_bytes(header.read_bytes())
    own = (KERNELS / "onnx/onnxruntime_abi.h").read_text(encoding="utf-8")
    names = re.findall(r"\(\*(\w+)\)\(const CustomOp|\(\*(\w+)\)\(void\* kernel", own)
    fields = [first or second for first, second in names]
    assert len(fields) == 21
    text = PROGRAM.replace("{fields}", "\n".join(f"CHECK_FIELD({name})" for name in fields))
    source = tmp_path / "abi.cpp"
    source.write_text(text, encoding="utf-8")
    command = ["g++", "-std=c++17", "-fsyntax-only", f"-I{KERNELS}", f"-I{tmp_path}", str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
