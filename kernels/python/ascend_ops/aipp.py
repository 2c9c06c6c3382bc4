"""AIPP files (image preprocessing on the device) from a checked description.

The description is YAML or JSON: one object, or a list of them, with AIPP's own field names. What it
becomes is the text form that atc's --insert_op_conf reads. AIPP reads images: an input that is
none is refused.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ascend_ops.atc_shapes import InputShape
from ascend_ops.errors import InvalidInputError

# Format → channels that the model sees.
FORMATS: Final = {"YUV420SP_U8": (3,), "RGB888_U8": (3,), "XRGB8888_U8": (3, 4), "YUV400_U8": (1,)}
MODES: Final = ("static", "dynamic")
UINT8: Final = (0, 255)
MATRIX: Final = (-32677, 32676)
FP16_MAX: Final = 65504
PADDING_MAX: Final = 32

BOOLS: Final = ("crop", "padding", "csc_switch", "rbuv_swap_switch", "ax_swap_switch")
INTEGERS: Final[dict[str, tuple[int, int]]] = {
    "related_input_rank": (0, 1023),
    "src_image_size_w": (2, 4096),
    "src_image_size_h": (1, 4096),
    "load_start_pos_w": (0, 4095),
    "load_start_pos_h": (0, 4095),
    "crop_size_w": (1, 4096),
    "crop_size_h": (1, 4096),
    "left_padding_size": (0, PADDING_MAX),
    "right_padding_size": (0, PADDING_MAX),
    "top_padding_size": (0, PADDING_MAX),
    "bottom_padding_size": (0, PADDING_MAX),
    "max_src_image_size": (1, 2**32 - 1),
    **{f"matrix_r{row}c{column}": MATRIX for row in range(3) for column in range(3)},
    **{f"{side}_bias_{i}": UINT8 for side in ("input", "output") for i in range(3)},
    **{f"mean_chn_{i}": UINT8 for i in range(4)},
}
FLOATS: Final = {
    "padding_value": 255.0,
    **{f"min_chn_{i}": 255.0 for i in range(4)},
    **{f"var_reci_chn_{i}": float(FP16_MAX) for i in range(4)},
}
DYNAMIC_FIELDS: Final = ("aipp_mode", "related_input_rank", "max_src_image_size")

Aipp = dict[str, Any]


def read_aipp(path: Path) -> list[Aipp]:
    """The checked descriptions in a file. InvalidInputError names the file, field and remedy."""
    try:
        text = path.read_text(encoding="utf-8")
        content = json.loads(text) if path.suffix == ".json" else _yaml(path, text)
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"cannot read {path}: {error}. It must be YAML or JSON") from error
    entries = content if isinstance(content, list) else [content]
    if not entries or not all(isinstance(entry, dict) for entry in entries):
        raise InvalidInputError(
            f"{path} must hold an object of AIPP fields, or a list of them, such as "
            '{"aipp_mode": "static", "input_format": "RGB888_U8", …}'
        )
    ranks = [entry.get("related_input_rank", 0) for entry in entries]
    if len(set(map(str, ranks))) < len(ranks):
        raise InvalidInputError(f"{path} describes one input twice; correct related_input_rank")
    return [check_aipp(str(path), entry) for entry in entries]


def _yaml(path: Path, text: str) -> Any:
    try:
        import yaml
    except ModuleNotFoundError as error:
        raise InvalidInputError(
            f"reading {path} needs PyYAML: pip install pyyaml, or write it as {path.stem}.json"
        ) from error
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


def check_aipp(where: str, entry: Mapping[str, Any]) -> Aipp:
    """The description, in order and complete. InvalidInputError for a field that cannot be."""
    mode = entry.get("aipp_mode")
    if mode not in MODES:
        raise InvalidInputError(f"{where}: aipp_mode is {mode!r}; it must be static or dynamic")
    for name, value in entry.items():
        _check_field(where, name, value)
    checked = {"related_input_rank": 0, **entry}
    if mode == "dynamic":
        _check_dynamic(where, checked)
    else:
        _check_static(where, checked)
    return checked


def _check_field(where: str, name: str, value: Any) -> None:
    if name in BOOLS:
        good, what = isinstance(value, bool), "true or false"
    elif name in INTEGERS:
        low, high = INTEGERS[name]
        good = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
        what = f"a whole number from {low} to {high}"
    elif name in FLOATS:
        good = isinstance(value, int | float) and not isinstance(value, bool)
        good = good and math.isfinite(value) and abs(value) <= FLOATS[name]
        what = f"a number up to {FLOATS[name]:g}"
    elif name == "input_format":
        good, what = value in FORMATS, f"one of {', '.join(FORMATS)}"
    elif name == "aipp_mode":
        return
    else:
        raise InvalidInputError(f"{where}: AIPP has no field {name!r}{_nearest(name)}")
    if not good:
        raise InvalidInputError(f"{where}: {name} is {value!r}; it must be {what}")


def _nearest(name: str) -> str:
    from difflib import get_close_matches

    known = [*BOOLS, *INTEGERS, *FLOATS, "input_format", "aipp_mode"]
    near = get_close_matches(str(name), known, 1)
    return f"; did you mean {near[0]}?" if near else ""


def _check_dynamic(where: str, entry: Aipp) -> None:
    extra = [name for name in entry if name not in DYNAMIC_FIELDS]
    if extra:
        raise InvalidInputError(
            f"{where}: {extra[0]} belongs to aipp_mode static; in dynamic mode the program sets "
            "it for each image"
        )
    if "max_src_image_size" not in entry:
        raise InvalidInputError(f"{where}: aipp_mode dynamic needs max_src_image_size, in bytes")


def _check_static(where: str, entry: Aipp) -> None:
    for name in ("input_format", "src_image_size_w", "src_image_size_h"):
        if name not in entry:
            raise InvalidInputError(f"{where}: aipp_mode static needs {name}")
    if "max_src_image_size" in entry:
        raise InvalidInputError(f"{where}: max_src_image_size belongs to aipp_mode dynamic")
    for side in ("w", "h"):
        start, size = entry.get(f"load_start_pos_{side}", 0), entry.get(f"crop_size_{side}")
        if (size is not None or start) and not entry.get("crop"):
            raise InvalidInputError(f"{where}: crop_size and load_start_pos need crop: true")
        if entry.get("crop") and size is None:
            raise InvalidInputError(f"{where}: crop: true needs crop_size_w and crop_size_h")
        if size is not None and start + size > entry[f"src_image_size_{side}"]:
            raise InvalidInputError(
                f"{where}: the crop ends at {start + size}, outside src_image_size_{side} "
                f"{entry[f'src_image_size_{side}']}"
            )
    if entry["input_format"] == "YUV420SP_U8":
        _check_even(where, entry)
    if entry.get("ax_swap_switch") and entry["input_format"] != "XRGB8888_U8":
        raise InvalidInputError(f"{where}: ax_swap_switch needs input_format XRGB8888_U8")


def _check_even(where: str, entry: Aipp) -> None:
    """In YUV420SP four pixels share their colour, so sizes and positions are even."""
    for name in ("src_image_size", "load_start_pos", "crop_size"):
        for side in ("w", "h"):
            if entry.get(f"{name}_{side}", 0) % 2:
                raise InvalidInputError(f"{where}: {name}_{side} must be even with YUV420SP_U8")


def output_size(entry: Aipp) -> tuple[int, int]:
    """Height and width of the image that the model gets, after crop and padding."""
    height, width = (
        entry[f"crop_size_{side}"] if entry.get("crop") else entry[f"src_image_size_{side}"]
        for side in ("h", "w")
    )
    if entry.get("padding"):
        height += entry.get("top_padding_size", 0) + entry.get("bottom_padding_size", 0)
        width += entry.get("left_padding_size", 0) + entry.get("right_padding_size", 0)
    return height, width


def check_against_model(entry: Aipp, inputs: tuple[InputShape, ...], input_format: str) -> None:
    """AIPP is for images: rank 4 with a channel axis, and of the size that AIPP makes."""
    rank = entry["related_input_rank"]
    if input_format not in ("NCHW", "NHWC"):
        raise InvalidInputError(
            f"AIPP needs --input-format NCHW or NHWC, not {input_format or 'none'}: it must know "
            "which axis has the channels of the image"
        )
    if rank >= len(inputs):
        raise InvalidInputError(
            f"AIPP: related_input_rank {rank} is none of the {len(inputs)} inputs in --input-shape"
        )
    one = inputs[rank]
    channel_axis = input_format.index("C")
    channels = one.sizes[channel_axis] if len(one.sizes) == 4 else None
    if channels not in (1, 3, 4):
        raise InvalidInputError(
            f"AIPP is for images, and input {one.name} is none: its shape "
            f"{one.sizes} is not {input_format} with 1, 3 or 4 channels. Leave --aipp away, or "
            "correct related_input_rank"
        )
    if entry["aipp_mode"] == "static":
        _check_image(entry, one, input_format, int(channels))


def _check_image(entry: Aipp, one: InputShape, input_format: str, channels: int) -> None:
    allowed = FORMATS[entry["input_format"]]
    if channels not in allowed:
        raise InvalidInputError(
            f"AIPP: {entry['input_format']} gives {allowed[0]} channel(s), and input {one.name} "
            f"has {channels}"
        )
    wanted = tuple(one.sizes[input_format.index(axis)] for axis in "HW")
    made = output_size(entry)
    if any(size not in (-1, own) for size, own in zip(wanted, made, strict=True)):
        raise InvalidInputError(
            f"AIPP makes images of {made[0]} × {made[1]} (height × width), and input {one.name} "
            f"takes {wanted[0]} × {wanted[1]}"
        )


def format_aipp(entries: list[Aipp]) -> str:
    """The file for --insert_op_conf: one aipp_op block an input."""
    blocks = []
    for entry in entries:
        lines = [f"    {name}: {_text(value)}" for name, value in entry.items()]
        blocks.append("aipp_op {\n" + "\n".join(lines) + "\n}\n")
    return "".join(blocks)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
