"""What a SoC cannot do does not compile, and the emulator takes no more than the real headers.

Each line is compiled for a SoC family; None means that it must compile, a text that the compiler's
error must contain it. The right answers are the tables of the vendor's API pages.
"""

import subprocess
from pathlib import Path

import pytest
from ascend_ops.build_record import read_build_record

KERNELS = Path(__file__).resolve().parent.parent
A910, P310, A2, A950 = 1001, 2002, 2201, 3510

HEAD = """
#include "kernel_operator.h"
using namespace AscendC;
LocalTensor<float> f; LocalTensor<half> h; LocalTensor<int16_t> s; LocalTensor<int32_t> i;
LocalTensor<int8_t> c; LocalTensor<double> d; GlobalTensor<float> gf, gf2;
DataCopyExtParams copy; DataCopyPadExtParams<float> pad;
TPipe pipe;
"""
BFLOAT = "LocalTensor<bfloat16_t> b; "
NO_PAD = "DataCopyPad: not on this SoC"
NO_ADD = "Add: this SoC does not have it for this type"
NO_CAST = "Cast: this SoC does not have this pair of types"

NO_MMAD = "Mmad: not on this SoC, or not for these types"
NO_BIAS_COPY = "DataCopy into the bias table: not on this SoC, or not for these types"
CUBE = "MmadParams mmad; LoadData2DParams load; DataCopyParams one; FixpipeParamsV220 fixpipe; "
FIXPIPE = CUBE + "Fixpipe<float, float, CFG_ROW_MAJOR>(gf, f, fixpipe);"

LINES: list[tuple[str, int, str | None]] = [
    ("Exp(f, f, 8);", A2, None),
    ("Exp(h, h, 8);", A910, None),
    ("Exp(s, s, 8);", A2, "Exp takes half and float only"),
    (BFLOAT + "Exp(b, b, 8);", A2, "Exp takes half and float only"),
    ("Exp<float, DEFAULT_EXP_CONFIG>(f, f, 8);", A950, None),
    ("Exp<float, DEFAULT_EXP_CONFIG>(f, f, 8);", A2, "DEFAULT_EXP_CONFIG"),
    ("Exp(f, h, 8);", A2, "no matching function"),
    ("Div(f, f, f, 8);", P310, None),
    ("Div(i, i, i, 8);", A2, "Div takes half and float only"),
    ("Div<float, DEFAULT_DIV_CONFIG>(f, f, f, 8);", A950, None),
    ("Reciprocal(i, i, 8);", A2, "Reciprocal takes half and float only"),
    ("Add(i, i, i, 8);", A910, None),
    ("Add(s, s, s, 8);", P310, None),
    ("Add(s, s, s, 8);", A910, NO_ADD),
    ("Add(c, c, c, 8);", A2, NO_ADD),
    (BFLOAT + "Add(b, b, b, 8);", A2, NO_ADD),
    (BFLOAT + "Add(b, b, b, 8);", A950, None),
    ("Add(d, d, d, 8);", A2, NO_ADD),
    ("Add(f, f, 2.0f, 8);", A2, "no matching function"),
    ("Adds(f, f, 2.0f, 8);", A2, None),
    ("Adds(i, i, 2, 8);", A910, "Adds: this SoC does not have it for this type"),
    ("Adds(f, f, 2, 8);", A2, "no matching function"),
    ("Relu(f, f, 8);", A2, None),
    ("Relu(f, f, 8);", A910, "Relu: this SoC does not have it for this type"),
    ("Relu(h, h, 8);", A910, None),
    ("Cast(f, h, RoundMode::CAST_NONE, 8);", A910, None),
    (BFLOAT + "Cast(f, b, RoundMode::CAST_NONE, 8);", A2, None),
    (BFLOAT + "Cast(f, b, RoundMode::CAST_NONE, 8);", P310, NO_CAST),
    (BFLOAT + "Cast(h, b, RoundMode::CAST_RINT, 8);", A2, NO_CAST),
    ("Cast(f, h, 8);", A2, "no matching function"),
    ("Duplicate(c, int8_t{1}, 8);", A2, "Duplicate: this SoC does not have it for this type"),
    ("DataCopyPad(f, gf, copy, pad);", A2, None),
    ("DataCopyPad(f, gf, copy, pad);", P310, NO_PAD),
    ("DataCopyPad(gf, f, copy);", A910, NO_PAD),
    ("DataCopy(gf, gf2, 8);", A2, "no matching function"),
    ("DataCopy(f, gf, 8); DataCopy(gf, f, 8);", A910, None),
    ("SetAtomicAdd<float>();", A910, None),
    ("SetAtomicAdd<half>();", A910, "SetAtomicAdd: this SoC cannot add this type"),
    ("SetAtomicAdd<int32_t>();", P310, "SetAtomicAdd: this SoC cannot add this type"),
    ("SetAtomicAdd<bfloat16_t>();", A2, None),
    ("bfloat16_t x(1.0f); x = x + x;", A2, "no match for"),
    ("half x = 1.0f; (void)x;", A2, "conversion from"),
    ("TQue<TPosition::VECCALC, 1> q; (void)q;", A2, "no queue at that position"),
    ("TQue<TPosition::VECIN, 1> q; pipe.InitBuffer(q, 2, 64);", A2, None),
    # The cube unit: what its tables say for each SoC.
    *[(CUBE + "Mmad(f, h, h, mmad);", arch, None) for arch in (A2, A950)],
    *[(CUBE + "Mmad(f, f, f, mmad);", arch, None) for arch in (A2, A950)],
    *[(CUBE + BFLOAT + "Mmad(f, b, b, mmad);", arch, None) for arch in (A2, A950)],
    *[(CUBE + "Mmad(f, f, f, mmad);", arch, NO_MMAD) for arch in (P310, A910)],
    (CUBE + "Mmad(f, h, f, mmad);", A2, NO_MMAD),
    (CUBE + "Mmad(h, h, h, mmad);", A2, NO_MMAD),
    (CUBE + "mmad.disableGemv = true;", A950, None),
    (CUBE + "mmad.disableGemv = true;", A2, "no member named"),
    (CUBE + "DataCopy(f, h, one);", A2, None),
    (CUBE + BFLOAT + "DataCopy(f, b, one);", A950, None),
    (CUBE + BFLOAT + "DataCopy(f, b, one);", A2, NO_BIAS_COPY),
    (CUBE + "DataCopy(f, h, one);", P310, NO_BIAS_COPY),
    (CUBE + "LoadData(h, h, load);", A2, None),
    (CUBE + "LoadData(h, h, load);", A950, "on 3510 take LoadData2DParamsV2"),
    ("LoadData2DParamsV2 load; LoadData(h, h, load);", A950, None),
    ("LoadData2DParamsV2 load; LoadData(h, h, load);", A2, "LoadData2DParamsV2: of 3510"),
    *[(FIXPIPE, arch, None) for arch in (A2, A950)],
    *[(FIXPIPE, arch, "Fixpipe: not on this SoC") for arch in (P310, A910)],
    ("TQue<TPosition::A1, 1> q; (void)q;", A950, None),
    ("TQue<TPosition::A1, 1> q; (void)q;", A910, "no queue at that position"),
]


@pytest.mark.parametrize("operator", ["matmul_bias_act", "conv2d_bias_relu"])
@pytest.mark.parametrize("arch", [A910, P310])
def test_a_kernel_of_the_cube_unit_says_what_a_soc_lacks(
    operator: str, arch: int, tmp_path: Path
) -> None:
    source = tmp_path / "kernel.cpp"
    source.write_text(f'#include "{KERNELS}/{operator}/{operator}_kernel.h"\n', encoding="utf-8")
    include = f"-I{KERNELS / 'cpusim/include'}"
    flags = ["-std=c++17", "-fsyntax-only", "-DCPUSIM_CHECKED=0", f"-D__NPU_ARCH__={arch}"]
    command = ["g++", *flags, include, str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "no bias table and no Fixpipe: leave matmul_bias_act and conv2d" in done.stderr


def compile_text(text: str, arch: int, folder: Path) -> str:
    """The compiler's errors for one function body; empty when it compiles."""
    source = folder / "line.cpp"
    source.write_text(f"{HEAD}\nvoid Line() {{ {text} }}\n", encoding="utf-8")
    include = f"-I{KERNELS / 'cpusim/include'}"
    flags = ["-std=c++17", "-fsyntax-only", "-DCPUSIM_CHECKED=0", f"-D__NPU_ARCH__={arch}"]
    command = ["g++", *flags, include, str(source)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stderr


@pytest.mark.parametrize(("text", "arch", "told"), LINES)
def test_a_line_compiles_where_the_hardware_has_it(
    text: str, arch: int, told: str | None, tmp_path: Path
) -> None:
    errors = compile_text(text, arch, tmp_path)
    if told is None:
        assert errors == ""
    else:
        assert told in errors


def test_an_unknown_soc_is_refused(tmp_path: Path) -> None:
    assert "__NPU_ARCH__ must be 1001 (910A), 2002 (310P)" in compile_text("", 220, tmp_path)


@pytest.mark.parametrize("arch", [A910, P310, A2, A950])
@pytest.mark.parametrize("operator", read_build_record().operators)
def test_every_operator_compiles_for_every_soc(operator: str, arch: int) -> None:
    include = [f"-I{KERNELS / name}" for name in ("cpusim/include", "runtime")]
    flags = ["-std=c++17", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-DCPUSIM_CHECKED=1"]
    source = KERNELS / operator / f"{operator}_cpusim.cpp"
    command = ["g++", *flags, f"-D__NPU_ARCH__={arch}", *include, str(source)]
    subprocess.run(command, check=True)


@pytest.mark.parametrize("operator", read_build_record().operators)
def test_kernel_files_include_nothing_of_the_host(operator: str) -> None:
    text = (KERNELS / operator / f"{operator}_kernel.h").read_text(encoding="utf-8")
    includes = [line for line in text.splitlines() if line.startswith("#include")]
    cube = operator in ("conv2d_bias_relu", "matmul_bias_act")
    assert includes == [
        '#include "kernel_operator.h"',
        f'#include "../common/{"cube_gemm" if cube else "tile_copy"}.h"',
        f'#include "{operator}_tiling.h"',
    ]
