"""What goes together in an image, and what the refusal of the rest says."""

from __future__ import annotations

import pytest

from opsctl.errors import PreflightRefused
from opsctl.images.matrix import Combination, check, read_matrix
from opsctl.images.versions import version_key

CPU = Combination("debian-12", "3.11", "2.21.0", "x86_64")
CANN = Combination(
    "ubuntu-22.04", "3.11", "2.21.0", "x86_64", "910b", "8.5.0", "25.5.0", "ascend910b1"
)


def refusal(wanted: Combination) -> PreflightRefused:
    with pytest.raises(PreflightRefused) as caught:
        check(wanted)
    return caught.value


def change(row: Combination, **values: object) -> Combination:
    return Combination(**{**row.__dict__, **values})


@pytest.mark.parametrize(
    "row",
    [
        CPU,
        change(CPU, architecture="aarch64"),
        CANN,
        change(CANN, driver="26.1.0"),
        change(CANN, cann="8.2.RC1", driver="24.1.RC2"),
        change(CANN, chip="a3", soc="ascend910_9391"),
        Combination("ubuntu-18.04", "3.7", "2.6.5", "x86_64", "910", "6.3.RC2", "23.0.rc2",
                    "ascend910a", adapter=True, operators=False),
    ],
    ids=str,
)  # fmt: skip
def test_a_row_of_the_matrix_is_accepted(row: Combination) -> None:
    check(row)


def test_tensorflow_2_8_with_cann_6_through_the_adapter_is_refused_with_both_ways_out() -> None:
    wanted = Combination("ubuntu-22.04", "3.10", "2.8.0", "x86_64", "910", "6.0.RC1",
                         adapter=True, operators=False)  # fmt: skip
    refused = refusal(wanted)
    assert refused.exit_code == 4
    assert refused.why == (
        "TensorFlow's adapter for Ascend exists for TensorFlow 1.15.0 and 2.6.5 only, not 2.8.0 "
        "(cann.adapter: false takes the AscendCL route, which works with any TensorFlow but copies "
        "at each call)"
    )
    rows = refused.next_step.splitlines()[1:]
    assert rows[0].strip() == str(change(wanted, adapter=False))


def test_a_python_that_the_system_has_not_is_refused() -> None:
    refused = refusal(change(CANN, python="3.8"))
    assert "ubuntu-22.04 has Python 3.10 and 3.11, not 3.8" in refused.why
    assert str(CANN) in refused.next_step


def test_tensorflow_2_8_on_aarch64_is_refused_as_there_is_no_wheel() -> None:
    wanted = Combination("ubuntu-20.04", "3.8", "2.8.0", "aarch64", operators=False)
    assert refusal(wanted).why == "TensorFlow 2.8.0 has no wheel for aarch64"


def test_kernels_of_another_chip_are_refused() -> None:
    refused = refusal(change(CANN, soc="ascend310p1"))
    assert refused.why.startswith(
        "kernels for ascend310p1 do not run on 910b (its SoCs: ascend910b1"
    )
    assert refused.next_step.splitlines()[1].strip() == str(change(CANN, soc="ascend910b1"))


def test_kernels_for_a_chip_that_cann_does_not_know_are_refused() -> None:
    wanted = change(CANN, cann="8.0.RC1", chip="a3", driver="24.1.RC1", soc="ascend910_9391")
    assert refusal(wanted).why == "CANN 8.0.RC1 has no kernels for a3"


@pytest.mark.parametrize(
    ("cann", "driver", "least"),
    [
        ("8.5.0", "24.1.RC3", "25.0"),
        ("8.2.RC1", "24.1.RC1", "24.1.RC2"),
        ("8.1.RC1", "24.1.0", "25.0.RC1"),
        ("9.1.0", "25.5.0", "26.1.0"),
    ],
)
def test_a_driver_older_than_cann_needs_is_refused(cann: str, driver: str, least: str) -> None:
    refused = refusal(change(CANN, cann=cann, driver=driver))
    assert refused.why == f"CANN {cann} needs driver {least} or newer, not {driver}"


def test_every_reason_stands_in_one_refusal() -> None:
    refused = refusal(Combination("debian-12", "3.8", "2.8.0", "aarch64"))
    assert refused.why == (
        "debian-12 has Python 3.11, not 3.8; the op library's Python package needs Python 3.11 or "
        "newer; TensorFlow 2.8.0 has no wheel for aarch64"
    )


@pytest.mark.parametrize("wanted", [
    change(CPU, python="3.8"), change(CANN, driver="20.0"), change(CANN, tensorflow="2.8.0"),
    change(CPU, tensorflow="2.99.0"), change(CANN, cann="7.0.0"),
], ids=str)  # fmt: skip
def test_each_row_that_a_refusal_names_is_accepted(wanted: Combination) -> None:
    matrix = read_matrix()
    rows = matrix.rows(wanted)
    assert rows
    for row in rows:
        check(row)
    assert [str(row) for row in rows] == [
        line.strip() for line in refusal(wanted).next_step.splitlines()[1:]
    ]


def test_versions_of_drivers_are_in_their_order() -> None:
    ordered = ["23.0.rc2", "24.1.RC1", "24.1.RC2", "24.1.RC3", "24.1.0", "25.0.RC1", "25.0.0",
               "25.2.0", "25.5.1", "26.1.0"]  # fmt: skip
    assert sorted(ordered, key=version_key) == ordered
    assert version_key("25.0") == version_key("25.0.0")


def test_files_of_cann_are_named_as_each_version_names_them() -> None:
    matrix = read_matrix()
    assert matrix.cann_files("8.5.0", "a3", "aarch64") == {
        "toolkit": "Ascend-cann-toolkit_8.5.0_linux-aarch64.run",
        "ops": "Ascend-cann-A3-ops_8.5.0_linux-aarch64.run",
        "nnal": "Ascend-cann-nnal_8.5.0_linux-aarch64.run",
        "tfplugin": "Ascend-cann-tfplugin_8.5.0_linux-aarch64.run",
    }
    assert matrix.cann_files("8.1.RC1", "a3", "x86_64")["kernels"] == (
        "Atlas-A3-cann-kernels_8.1.RC1_linux-x86_64.run"
    )
