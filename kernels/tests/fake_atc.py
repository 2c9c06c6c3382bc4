"""Stands for CANN's atc: takes the options that its flags file defines and no others, checks their
values as its documentation says, reports with its error codes, and writes an .om.

Written from the documentation of the options and errors, and not from the code that it tests.
"""

import re
import sys
from pathlib import Path
from typing import NoReturn

STRING_NAMES = (
    "model output weight input_shape input_hint_shape input_shape_range cal_conf insert_op_conf "
    "op_name_map target om json out_nodes op_precision_mode allow_hf32 precision_mode "
    "precision_mode_v2 modify_mixlist keep_dtype input_format check_report input_fp16_nodes "
    "is_output_adjust_hw_layout is_input_adjust_hw_layout output_type op_select_implmode "
    "optypelist_for_implmode singleop auto_tune_mode jit_compile soc_version core_type aicore_num "
    "buffer_optimize fusion_switch_file dynamic_batch_size dynamic_image_size dynamic_dims log "
    "enable_small_channel debug_dir op_compiler_cache_dir op_compiler_cache_mode"
)
STRINGS = set(STRING_NAMES.split())
INTEGERS = {"framework", "mode", "disable_reuse_memory", "virtual_type", "op_debug_level"}
DYNAMIC = ("dynamic_batch_size", "dynamic_image_size", "dynamic_dims")
CHOICES = {
    "log": "debug info warning error null",
    "op_select_implmode": "high_precision high_performance high_precision_for_all "
    "high_performance_for_all",
    "precision_mode": "force_fp16 force_fp32 cube_fp16in_fp32out allow_mix_precision "
    "allow_fp32_to_fp16 must_keep_origin_dtype allow_mix_precision_fp16 allow_mix_precision_bf16 "
    "allow_fp32_to_bf16",
    "precision_mode_v2": "fp16 origin cube_fp16in_fp32out mixed_float16 mixed_bfloat16",
}
AIPP_FIELD = re.compile(r"    (\w+): (-?[\w.]+)")
STAMP = "[PID: 4711] 2026-01-02-03:04:05.678.901"


def fail(code: str, text: str) -> NoReturn:
    """As atc ends: the sentence, the code with its process and time, and 255."""
    print("ATC run failed, Please check the detail log, Try 'atc --help' for more information")
    print(f"{code}: {STAMP} {text}")
    print("        TraceBack (most recent call last):")
    sys.exit(255)


def read_flags(words: list[str]) -> dict[str, str]:
    """As gflags: --name=value, known names, whole numbers where they are wanted."""
    flags: dict[str, str] = {}
    for word in words:
        match = re.fullmatch(r"--(\w+)=(.*)", word, re.DOTALL)
        if match is None or match.group(1) not in STRINGS | INTEGERS:
            print(f"ERROR: unknown command line flag '{word}'")
            sys.exit(1)
        name, value = match.groups()
        if name in INTEGERS and not re.fullmatch(r"-?\d+", value):
            print(f"ERROR: illegal value '{value}' specified for int32 flag '{name}'")
            sys.exit(1)
        flags[name] = value
    return flags


def check_required(flags: dict[str, str]) -> None:
    """Model, framework, output, SoC."""
    for name in ("model", "output", "soc_version"):
        if not flags.get(name):
            fail("E10054", f"The required parameter [--{name}] for ATC is empty.")
    if flags.get("framework") not in ("0", "1", "3", "5"):
        fail("E10007", "[--framework] is required. The value must be [0(Caffe) or 1(MindSpore) …].")
    if flags["framework"] == "0" and not flags.get("weight"):
        fail("E10008", "--weight must not be empty when --framework is set to 0 (Caffe).")
    if not re.fullmatch(r"Ascend(310|910|950)\w*(-1)?", flags["soc_version"]):
        fail("E10001", f"Value [{flags['soc_version']}] for parameter [--soc_version] is invalid.")
    for name, choices in CHOICES.items():
        if flags.get(name) and flags[name] not in choices.split():
            code = "E10010" if name == "log" else "E10001"
            fail(code, f"Value {flags[name]} for parameter --{name} is invalid.")


def check_shapes(flags: dict[str, str]) -> None:
    """--input_shape, and the one dynamic option that goes with its −1."""
    given = [name for name in DYNAMIC if flags.get(name)]
    if len(given) > 1:
        fail("E10009", "--dynamic_batch_size, --dynamic_image_size … are mutually exclusive.")
    shapes = flags.get("input_shape", "")
    free = 0
    for part in filter(None, shapes.split(";")):
        if not re.fullmatch(r"[^:]+:(-1|\d+(~\d+)?)(,(-1|\d+(~\d+)?))*", part):
            fail("E10002", f"Value {part} for parameter --input_shape is invalid.")
        free += part.rpartition(":")[2].split(",").count("-1")
    if not given:
        return
    if "~" in shapes or not free:
        fail("E10040", "… the nodes specified in --input_shape must have -1 axes, cannot have '~'.")
    separator = "," if given[0] == "dynamic_batch_size" else ";"
    profiles = flags[given[0]].split(separator)
    if len(profiles) < 2:
        fail("E10035", f"--dynamic_… has {len(profiles)} profiles, less than the minimum 2.")
    if len(profiles) > 100:
        fail("E10036", f"--dynamic_… has {len(profiles)} profiles, greater than the maximum 100.")
    if given[0] == "dynamic_dims" and len(profiles[0].split(",")) != free:
        fail("E10045", "The number of -1 axes exceeds the dimension count per profile.")


def check_aipp(flags: dict[str, str]) -> None:
    """The text form: blocks of one field a line."""
    if "insert_op_conf" not in flags:
        return
    text = Path(flags["insert_op_conf"]).read_text(encoding="utf-8")
    blocks = re.fullmatch(r"(aipp_op \{\n(    .*\n)+\}\n)+", text)
    lines = [line for line in text.splitlines() if line.startswith(" ")]
    if blocks is None or not all(AIPP_FIELD.fullmatch(line) for line in lines):
        fail("E10052", f"AIPP configuration is invalid. Reason: {text}.")


def main() -> None:
    """One conversion; the model's first line can tell it to fail."""
    flags = read_flags(sys.argv[1:])
    print("ATC start working now, please wait for a moment.", flush=True)
    check_required(flags)
    check_shapes(flags)
    if bool(flags.get("optypelist_for_implmode")) != (
        flags.get("op_select_implmode") in ("high_precision", "high_performance")
    ):
        fail("E10001", "--op_select_implmode and --optypelist_for_implmode …")
    if flags.get("precision_mode") and flags.get("precision_mode_v2"):
        fail("E10056", "Cannot configure both parameters … simultaneously.")
    check_aipp(flags)
    order = Path(flags["model"]).read_text(encoding="utf-8").splitlines()[0]
    if order.startswith("E"):
        fail(*order.split(": ", 1))
    if order == "hal":
        print("atc.bin: error while loading shared libraries: libascend_hal.so: cannot open …")
        sys.exit(127)
    if order != "nothing":
        suffix = "_linux_x86_64" if order == "dynamic" else ""
        Path(f"{flags['output']}{suffix}.om").write_text("\n".join(sys.argv[1:]), encoding="utf-8")
    print("ATC run success, welcome to the next use.")


if __name__ == "__main__":
    main()
