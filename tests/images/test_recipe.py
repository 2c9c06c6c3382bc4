"""What `build` in opsctl.yaml may say, and what it is refused for before anything is touched."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from opsctl.errors import ConfigError, OpsctlError, PreflightRefused
from opsctl.images.context import staged
from opsctl.images.recipe import read_recipe
from tests.images.projects import CANN, CPU, OPERATORS, make_project


def refusal(folder: Path, build: dict[str, Any]) -> OpsctlError:
    with pytest.raises(OpsctlError) as caught:
        read_recipe(make_project(folder, build))
    return caught.value


def test_tensorflow_is_the_one_that_the_requirements_lock(tmp_path: Path) -> None:
    assert read_recipe(make_project(tmp_path, CPU)).combination.tensorflow == "2.21.0"


def test_a_service_without_build_is_told_where_to_read(tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "main.py").write_text("")
    (tmp_path / "opsctl.yaml").write_text(
        "services: {web: {app: {directory: app, command: ['{python}', main.py]}}}"
    )
    from opsctl.config.load import load

    with pytest.raises(ConfigError, match=r"^service web has no `build`"):
        read_recipe(load(tmp_path / "opsctl.yaml", environment=None, service=None))


@pytest.mark.parametrize("base", ["debian:bookworm-slim", "debian@sha256:abcd", "debian"])
def test_a_base_without_digest_is_refused(tmp_path: Path, base: str) -> None:
    refused = refusal(tmp_path, {**CPU, "base": base})
    assert type(refused) is PreflightRefused
    assert refused.what == f"build.base {base} is not pinned"


def test_a_requirement_without_hash_is_refused_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("numpy==2.0.0\n")
    refused = refusal(tmp_path, {**CPU, "tensorflow": "2.21.0"})
    assert refused.what == "build.requirements: requirements.txt has no hash for numpy==2.0.0"


def test_requirements_that_lock_no_tensorflow_are_refused(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text(f"numpy==2.0.0 --hash=sha256:{'a' * 64}\n")
    assert refusal(tmp_path, CPU).what == "requirements.txt locks no TensorFlow"


def test_another_tensorflow_than_the_locked_one_is_refused(tmp_path: Path) -> None:
    refused = refusal(tmp_path, {**CPU, "tensorflow": "2.8.0"})
    assert refused.what == (
        "requirements.txt locks TensorFlow 2.21.0, and build.tensorflow says 2.8.0"
    )


def test_a_combination_that_is_no_row_is_refused_with_rows_that_are(tmp_path: Path) -> None:
    refused = refusal(tmp_path, {**CPU, "python": "3.8"})
    assert refused.exit_code == 4
    assert "debian-12, Python 3.11, TensorFlow 2.21.0, x86_64" in refused.next_step


def test_flavour_and_cann_must_agree(tmp_path: Path) -> None:
    refused = refusal(tmp_path, {**CANN, "flavour": "cpu"})
    assert (refused.exit_code, refused.what) == (
        2, "build.cann and build.flavour contradict each other",
    )  # fmt: skip


def test_a_secret_that_no_step_uses_is_refused(tmp_path: Path) -> None:
    refused = refusal(tmp_path, {**CPU, "secrets": {"npmrc": {"env": "NPMRC"}}})
    assert (refused.exit_code, refused.what) == (
        2, "build.secrets: no step of the build uses npmrc",
    )  # fmt: skip


def test_operators_need_the_tools_that_compile_them(tmp_path: Path) -> None:
    refused = refusal(tmp_path, {**CPU, "operators": "kernels"})
    assert refused.what == "build.operators needs build.operator_requirements"


def test_a_folder_that_is_no_op_library_is_refused(tmp_path: Path) -> None:
    refused = refusal(tmp_path, {**CPU, **OPERATORS, "operators": "app"})
    assert refused.why == "it has no pyproject.toml"


def cann_packages(tmp_path: Path, **settings: Any) -> dict[str, Any]:
    cann = {**CANN["cann"], "packages": "cann", "accept_eula": True, **settings}
    return {**CANN, "python": "3.11", "cann": cann}


def test_packages_of_cann_need_the_consent_to_their_licence(tmp_path: Path) -> None:
    refused = refusal(tmp_path, cann_packages(tmp_path, accept_eula=False))
    assert (refused.exit_code, refused.next_step) == (
        4, "Read it, then set build.cann.accept_eula: true",
    )  # fmt: skip


def test_a_missing_package_of_cann_is_named_with_all_that_are_needed(tmp_path: Path) -> None:
    refused = refusal(tmp_path, cann_packages(tmp_path))
    assert refused.what == (
        f"CANN 8.5.0: {tmp_path}/cann/Ascend-cann-toolkit_8.5.0_linux-x86_64.run is missing"
    )
    assert refused.why == (
        "910b on x86_64 needs Ascend-cann-toolkit_8.5.0_linux-x86_64.run, "
        "Ascend-cann-910b-ops_8.5.0_linux-x86_64.run, Ascend-cann-nnal_8.5.0_linux-x86_64.run"
    )


def test_a_package_of_cann_without_checksum_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cann").mkdir()
    for name in ("toolkit", "910b-ops", "nnal"):
        (tmp_path / "cann" / f"Ascend-cann-{name}_8.5.0_linux-x86_64.run").write_text("")
    refused = refusal(tmp_path, cann_packages(tmp_path))
    assert refused.what == (
        "build.cann.checksums has no SHA-256 of Ascend-cann-toolkit_8.5.0_linux-x86_64.run"
    )


def test_the_command_of_the_image_listens_on_every_address(tmp_path: Path) -> None:
    app = {"command": ["{python}", "main.py", "--host", "{host}", "--port", "{port}", "{model}"]}
    (tmp_path / "model").mkdir()
    recipe = read_recipe(make_project(tmp_path, CPU, app=app, model={"path": "model"}))
    assert recipe.command == (
        "python3", "main.py", "--host", "0.0.0.0", "--port", "8501", "/models",
    )  # fmt: skip


def test_keys_of_the_signature_are_never_part_of_the_application(tmp_path: Path) -> None:
    build = {**CPU, "signing": {"private_key": "app/cosign.key"}}
    project = make_project(tmp_path, build)
    (tmp_path / "app" / "cosign.key").write_text("secret")
    from opsctl.content import scan

    recipe = read_recipe(project)
    assert [entry.path for entry in scan(recipe.app.path, recipe.app.rules)] == ["main.py"]


def test_operators_of_an_installed_package_are_its_sources_with_its_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "site" / "ascend_ops"
    for name in ("__init__.py", "tensorflow.py", "libascend_ops.so", "build_record.json",
                 "cases/sigmoid_cases.py", "source/pyproject.toml", "source/CMakeLists.txt",
                 "source/sigmoid/sigmoid_kernel.h"):  # fmt: skip
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text("")
    monkeypatch.syspath_prepend(str(package.parent))
    monkeypatch.delitem(sys.modules, "ascend_ops", raising=False)
    build = {**CPU, "operators": "installed", "operator_requirements": "tools.txt"}
    recipe = read_recipe(make_project(tmp_path / "project", build))
    with staged(recipe, tmp_path, lambda: None) as folder:
        root = folder / "operators"
        files = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    assert files == {
        "pyproject.toml", "CMakeLists.txt", "sigmoid/sigmoid_kernel.h",
        "python/ascend_ops/__init__.py", "python/ascend_ops/tensorflow.py",
    }  # fmt: skip
