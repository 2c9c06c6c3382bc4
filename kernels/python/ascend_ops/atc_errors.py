"""What atc's errors mean: the code in its log → what to do.

Meanings after the error list in the sources of CANN's graph engine.
"""

import re
from typing import Final

CODE: Final = re.compile(r"\b(E[A-Z]\d{4}|E\d{5}):\s*(.*)")
SHAPE: Final = "correct --input-shape: names as in the model, sizes above 0"
PROFILES: Final = "correct the dynamic sizes: 2 to 100 different ones, all of one length, above 0"

REMEDIES: Final = {
    "E10001": "correct the value that the message names",
    "E10002": SHAPE,
    "E10003": "correct the value that the message names",
    "E10004": "give the option that the message names a value",
    "E10007": "add the option that the message names",
    "E10008": "add --weight, the Caffe model's weights",
    "E10009": "choose one of --dynamic-batch-size, --dynamic-image-size and --dynamic-dims",
    "E10010": "choose --log debug, info, warning, error or null",
    "E10011": "give sizes above 0 in --input-shape, or one of the --dynamic-… options",
    "E10012": "put -1 for the batch in --input-shape, or leave --dynamic-batch-size away",
    "E10013": "correct the value that the message names; see: atc --help",
    "E10014": "correct the value that the message names; see: atc --help",
    "E10016": "name a node that the model has in --out-nodes or --input-shape (a viewer such as "
    "Netron shows them), and separate nodes by ;",
    "E10017": "name an input of the model in --input-shape",
    "E10018": "with --dynamic-batch-size only the batch may be -1 in --input-shape",
    "E10019": "with --dynamic-image-size only height and width may be -1 in --input-shape",
    "E10020": "write --dynamic-image-size as height,width;height,width",
    "E10021": "choose a shorter path",
    "E10022": "add the file's name to the path",
    "E10031": "put -1 for the batch in --input-shape, or leave --dynamic-batch-size away",
    "E10034": "leave --aipp away for inputs of type fp16",
    "E10035": PROFILES,
    "E10036": PROFILES,
    "E10037": PROFILES,
    "E10038": PROFILES,
    "E10039": PROFILES,
    "E10040": "put -1 into --input-shape where it is dynamic, and no range",
    "E10041": "the model cannot be read: check the file, and that --framework fits it",
    "E10045": "write as many sizes in a profile of --dynamic-dims as --input-shape has -1",
    "E10046": "write as many sizes in a profile of --dynamic-dims as --input-shape has -1",
    "E10047": "leave one of the two options away",
    "E10049": "give each input as many sizes in --input-shape as it has axes",
    "E10052": "correct the file of --aipp as the message says",
    "E10054": "add the option that the message names",
    "E10055": "leave away what the message names: this SoC or version does not do it",
    "E10056": "leave one of the two options away",
    "E10410": "check the path that the message names",
    "E10501": "the operator has no prototype: check ASCEND_OPP_PATH, and install the operator "
    "package that has it (custom_opp_*.run)",
    "E11005": "add the input that the message names to --input-shape",
    "E11009": "install the operator package with the Caffe parser of this op",
    "E19010": "no parser knows this op: install the operator package with its parser plug-in, "
    "lower the ONNX opset (11 to 18), or convert a model without custom ops: "
    "opsctl model optimize --without-custom-ops",
    "E40000": "a Python module of the compiler is missing: source set_env.sh of the toolkit, and "
    "use its Python",
    "EC0010": "a Python module of the compiler is missing: pip install the one that is named",
    "EZ1001": "install the kernels (ops) package of this CANN version and SoC",
    "EZ3002": "this op does not exist for the SoC: check --soc-version, and the CANN version",
    "EZ3003": "no kernel supports this op: check --soc-version, install the operator package that "
    "has it, or convert a model without custom ops: opsctl model optimize --without-custom-ops",
    "EZ9999": "an internal error of the compiler: run again with --log debug, and report it",
    "E90000": "the op does not compile: run again with --log debug and look for its name",
}
# Where atc cannot even start.
STARTS: Final = (
    (
        "libascend_hal.so",
        (
            "the driver is not there: mount /usr/local/Ascend/driver/lib64, or on a machine "
            "without a device add the toolkit's devlib folder to LD_LIBRARY_PATH for this command"
        ),
    ),
    (
        "error while loading shared libraries",
        "source set_env.sh of the CANN toolkit, so that its libraries are found",
    ),
    ("ModuleNotFoundError", "pip install the Python module that is named"),
)


def find_code(lines: list[str]) -> tuple[str, str]:
    """The first error code in a log, and its text; ("", "") when it has none."""
    for line in lines:
        match = CODE.search(line)
        if match:
            return match.group(1), match.group(2)
    return "", ""


def explain(lines: list[str], exit_code: int) -> str:
    """One message: the exit code, what atc said, and what to do."""
    code, text = find_code(lines)
    if code:
        remedy = REMEDIES.get(code, "look the code up in the ATC manual, or run with --log debug")
        text = re.sub(r"^\[PID: \d+\] [\d.:-]+\s*", "", text)
        return f"atc failed (exit code {exit_code}) with {code}: {text.rstrip('.')}. Next: {remedy}"
    for sign, remedy in STARTS:
        said = next((line.strip() for line in lines if sign in line), None)
        if said:
            return f"atc failed (exit code {exit_code}): {said}. Next: {remedy}"
    last = next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")
    return (
        f"atc failed (exit code {exit_code}): {last}. Next: run again with --log debug and read "
        "the first ERROR above"
    )
