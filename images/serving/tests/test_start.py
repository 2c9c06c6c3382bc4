"""How a start goes wrong: fast, with one clear line and the exit code of errors.py."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import time

import pytest


@pytest.fixture
def fail(environment):
    """Starts a server that must fail; its exit code and what it wrote to stderr."""

    def start(*options, limit_s=5.0, **variables) -> tuple[int, str]:
        command = [sys.executable, "-m", "ascend_serving", "serve", *options]
        ports = ["--port", "0", "--health-port", "0"]
        started_s = time.monotonic()
        done = subprocess.run(
            [*command[:4], *ports, *command[4:]],
            env=environment(**variables),
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert time.monotonic() - started_s < limit_s
        assert done.stdout == ""
        return done.returncode, done.stderr

    return start


def one_line(text: str) -> str:
    assert text.count("\n") == 1, text
    assert text.startswith("error: ")
    return text


def test_a_taken_port_is_named(fail, toys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        model = str(toys / "half_plus_two")
        code, text = fail("--model-path", model, "--port", str(port))
        assert code == 69
        assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in one_line(text)
        code, text = fail("--model-path", model, "--health-port", str(port))
        assert code == 69
        assert "--health-port" in one_line(text)


def test_a_missing_model_is_named(fail, tmp_path):
    code, text = fail("--model-path", str(tmp_path / "none"))
    assert code == 66
    assert f"cannot serve {tmp_path}/none: there is nothing at this path" in one_line(text)
    code, text = fail("--model-path", str(tmp_path))
    assert code == 66
    assert "holds neither saved_model.pb" in one_line(text)


def test_a_damaged_model_is_refused(fail, toys, tmp_path):
    for index, damage in enumerate((cut_graph, drop_variables, damage_variables)):
        folder = tmp_path / str(index)
        shutil.copytree(toys / "half_plus_two", folder)
        damage(folder / "123")
        code, text = fail("--model-path", str(folder))
        assert code == 65, text
        assert f"{folder}/123" in one_line(text)


def cut_graph(folder):
    file = folder / "saved_model.pb"
    file.write_bytes(file.read_bytes()[:500])


def drop_variables(folder):
    shutil.rmtree(folder / "variables")


def damage_variables(folder):
    for file in (folder / "variables").glob("*.data*"):
        file.write_bytes(file.read_bytes()[:3])


def test_a_wrong_option_is_named(fail, toys):
    model = str(toys / "half_plus_two")
    for options, message in (
        (("--workers", "0"), "cannot use --workers=0: it is below 1"),
        (("--max-batch", "many"), "cannot read --max-batch=many: it is no int"),
        (("--backend", "torch"), "Use auto, tensorflow or acl."),
        (("--backend", "acl"), "it is a model for the back end tensorflow"),
    ):
        code, text = fail("--model-path", model, *options)
        assert code == 2
        assert message in one_line(text)
    code, text = fail()
    assert code == 2
    assert "--model-path is not set. Set it or MODEL_PATH." in one_line(text)


def test_an_om_model_without_cann_is_refused_with_what_to_do(fail, tmp_path):
    (tmp_path / "model.om").write_bytes(b"om")
    code, text = fail("--model-path", str(tmp_path / "model.om"))
    assert code == 69
    assert "pyACL, the Python module acl of CANN, cannot be imported" in one_line(text)
    assert "set_env.sh" in text


@pytest.mark.usefixtures("needs_ops")
def test_an_op_library_for_another_tensorflow_is_refused(fail, sample, tmp_path):
    library = tmp_path / "libascend_tensorflow.so"
    library.write_bytes(b"never opened")
    record = {"variants": ["x86-64"], "tensorflow_version": "2.8.0"}
    (tmp_path / "build_record.json").write_text(json.dumps(record))
    code, text = fail("--model-path", str(sample), "--op-library", str(library))
    assert code == 78
    assert "it was built for TensorFlow 2.8.0 and this is 2." in one_line(text)
    assert "Build and install ascend-ops against the TensorFlow that is installed here" in text


@pytest.mark.usefixtures("needs_ops")
def test_a_missing_or_damaged_op_library_is_refused(fail, sample, tmp_path):
    code, text = fail("--model-path", str(sample), "--op-library", str(tmp_path / "none.so"))
    assert code == 78
    assert f"{tmp_path}/none.so is missing" in one_line(text)
    (tmp_path / "bad.so").write_bytes(b"no library")
    code, text = fail("--model-path", str(sample), "--op-library", str(tmp_path / "bad.so"))
    assert code == 78
    assert "is damaged" in one_line(text)


@pytest.mark.usefixtures("needs_ops")
def test_the_package_without_its_library_is_told_from_no_package(fail, sample, tmp_path):
    package = tmp_path / "ascend_ops"
    package.mkdir()
    (package / "__init__.py").write_text("")
    script = (
        "import sys; sys.path.insert(0, sys.argv.pop(1));"
        "from ascend_serving.__main__ import entry; entry()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path), "serve", "--model-path", str(sample),
         "--port", "0", "--health-port", "0"],
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert done.returncode == 78
    assert f"{package}/libascend_tensorflow.so is missing" in one_line(done.stderr)


def test_a_link_is_resolved_first_and_both_paths_are_reported(start_server, toys, tmp_path):
    link = tmp_path / "production"
    link.symlink_to(toys / "half_plus_two")
    server = start_server(link).wait_ready()
    assert f"at {toys}/half_plus_two/123 (from {link})" in server.log[-1]
    link.unlink()
    link.symlink_to(toys / "table")
    assert server.get("/health").json()["model_path"] == f"{toys}/half_plus_two/123"
    assert server.predict({"instances": [1]}).json() == {"predictions": [2.5]}


def test_options_can_come_from_the_environment_and_the_command_line_wins(start_server, toys):
    server = start_server(
        toys / "half_plus_two",
        "--workers",
        "2",
        environment={"MODEL_NAME": "other", "SERVING_WORKERS": "none", "MODEL_PATH": "/none"},
    ).wait_ready()
    assert server.get("/health").json()["model"] == "other"


def test_a_clean_start_writes_one_line(start_server, toys):
    server = start_server(toys / "half_plus_two").wait_ready()
    assert len(server.log) == 1
    assert "INFO ready in " in server.log[0]


def test_a_signal_while_loading_ends_the_process(toys, environment):
    command = [
        *(sys.executable, "-m", "ascend_serving", "serve", "--model-path"),
        *(str(toys / "half_plus_two"), "--port", "0", "--health-port", "0"),
    ]
    for delay_s in (0.15, 0.3, 0.45):
        process = subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE)
        time.sleep(delay_s)
        process.terminate()
        _, log = process.communicate(timeout=60)
        assert process.returncode in (0, -15), log
