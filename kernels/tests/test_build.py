"""Building: without TensorFlow, for another SoC, with a sanitizer, incrementally."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ascend_ops.build_record import PACKAGE_DIR, BuildRecord, read_build_record
from ascend_ops.errors import LibraryError

KERNELS = Path(__file__).resolve().parent.parent
SCRIPT = """
import json, sys
import numpy as np
import ascend_ops
from ascend_ops.abi import DTYPES, load_library
from ascend_ops.spec import all_specs
from ascend_ops import numpy_ops
for variant in (None, "checked"):
    for spec in all_specs():
        for dtype in DTYPES[:int(sys.argv[1])]:
            if sys.argv[1] == "2" and not spec.elementwise and dtype != np.float32:
                continue  # its case has rows of 48 bytes, and there they must be whole blocks
            arguments = spec.inputs(int(sys.argv[2]), dtype, np.random.default_rng(1))
            try:
                getattr(numpy_ops, spec.name)(*arguments, variant=variant)
            except ValueError as error:  # these families' cube unit lacks what the kernels need
                refused = f"{spec.name}: there is no kernel for SoC family"
                assert variant == "checked" and str(error).startswith(refused), error
                assert spec.name in ("matmul_bias_act", "conv2d_bias_relu"), error
                assert load_library("checked").npu_arch in (1001, 2002), error
print(json.dumps(ascend_ops.selftest("numpy").outcome if len(sys.argv) == 3 else "skipped"))
"""


def build(folder: Path, *definitions: str) -> Path:
    """Configures, builds and installs without TensorFlow; the installed package's directory."""
    shutil.copytree(
        PACKAGE_DIR, folder / "ascend_ops", ignore=shutil.ignore_patterns("lib*", "__pycache__")
    )
    configure = ["cmake", "-S", str(KERNELS), "-B", str(folder / "build"), "-G", "Ninja"]
    configure += [f"-D{definition}" for definition in ("ASCEND_TENSORFLOW=OFF", *definitions)]
    subprocess.run(configure, check=True, capture_output=True)
    subprocess.run(["cmake", "--build", str(folder / "build"), "-j2"], check=True)
    install = ["cmake", "--install", str(folder / "build"), "--prefix", str(folder)]
    subprocess.run(install, check=True, capture_output=True)
    return folder / "ascend_ops"


def run_there(folder: Path, *arguments: str, preload: str = "") -> str:
    """Runs every operator, fast and checked, in a process that uses the package in `folder`."""
    environment = os.environ | {"PYTHONPATH": str(folder), "ASAN_OPTIONS": "detect_leaks=0"}
    if preload:
        environment["LD_PRELOAD"] = preload
    command = [sys.executable, "-c", SCRIPT, *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=folder, env=environment
    )
    assert done.returncode == 0, done.stderr
    return str(json.loads(done.stdout))


@pytest.mark.long
def test_without_tensorflow_the_operators_build_and_pass(tmp_path: Path) -> None:
    package = build(tmp_path)
    assert read_build_record(package).tensorflow_version == ""
    assert not (package / "libascend_tensorflow.so").exists()
    assert run_there(tmp_path, "3", "70001") == "pass"
    # One operator again: at most 20 s on two cores.
    (KERNELS / "sigmoid/sigmoid_cpusim.cpp").touch()
    start = time.monotonic()
    subprocess.run(["cmake", "--build", str(tmp_path / "build"), "-j2"], check=True)
    print(f"one operator again: {time.monotonic() - start:.1f} s")


def test_what_tells_tensorflows_apart_is_known_without_its_import() -> None:
    script = str(KERNELS / "cmake/tensorflow_flags.py")
    command = [sys.executable, "-X", "importtime", script, "--mark"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = importlib.util.find_spec("tensorflow")
    assert "tensorflow.python" not in done.stderr
    if found is None or found.origin is None:
        assert done.stdout == "\n"
    else:
        time_ns = Path(found.origin).stat().st_mtime_ns
        assert done.stdout == f"{sys.executable} {found.origin} {time_ns}\n"


@pytest.mark.long
@pytest.mark.parametrize("arch", ["1001", "2002", "3510"])
def test_the_operators_build_for_every_soc(arch: str, tmp_path: Path) -> None:
    package = build(tmp_path, f"ASCEND_NPU_ARCH={arch}")
    assert read_build_record(package).npu_arch == arch
    types = "3" if arch == "3510" else "2"  # 910A and 310P have no bfloat16
    assert run_there(tmp_path, types, "70001", "no selftest") == "skipped"
    if arch == "3510":  # whose cube unit loads and multiplies otherwise than 2201's
        check_products(tmp_path)


def check_products(folder: Path) -> None:
    """Runs the tests of the checked products against the package in `folder`."""
    tests = str(KERNELS / "tests/test_fused.py")
    command = [sys.executable, "-m", "pytest", "-q", "-k", "checked", tests]
    environment = os.environ | {"PYTHONPATH": str(folder)}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=KERNELS.parent, env=environment
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.long
@pytest.mark.timeout(1500)
def test_the_operators_are_clean_under_sanitizers(tmp_path: Path) -> None:
    build(tmp_path, "ASCEND_SANITIZE=address,undefined", "CMAKE_BUILD_TYPE=Debug")
    # The C++ library as well: the sanitizer looks for its exceptions when the process starts.
    libraries = [
        subprocess.run(
            ["g++", f"-print-file-name={name}"], capture_output=True, text=True, check=True
        ).stdout.strip()
        for name in ("libasan.so", "libstdc++.so")
    ]
    # Products of that many elements take minutes with a sanitizer, so few elements have to do.
    assert run_there(tmp_path, "3", "5001", "no selftest", preload=" ".join(libraries)) == "skipped"


def test_the_record_says_what_was_built() -> None:
    record = read_build_record()
    assert {"checked"} < set(record.variants)
    assert record.operators == (
        "conv2d_bias_relu",
        "embedding_dense_grad",
        "gather_add_relu",
        "matmul_bias_act",
        "sigmoid",
        "sigmoid_grad",
    )
    for variant in record.variants:
        assert (PACKAGE_DIR / f"libascend_cpusim_{variant}.so").is_file()


@pytest.mark.parametrize("text", ["{", "{}", '{"variants": [], "operators": []}'])
def test_a_damaged_record_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / "build_record.json").write_text(text, encoding="utf-8")
    with pytest.raises(LibraryError, match=r"is unreadable .* Build it again: pip install"):
        read_build_record(tmp_path)


def test_a_source_tree_that_nobody_built_is_told(tmp_path: Path) -> None:
    with pytest.raises(LibraryError, match=r"has no compiled libraries: .* Build it: pip install"):
        read_build_record(tmp_path)


def test_the_record_has_every_field() -> None:
    text = (PACKAGE_DIR / "build_record.json").read_text(encoding="utf-8")
    assert set(json.loads(text)) == set(BuildRecord.__dataclass_fields__)
