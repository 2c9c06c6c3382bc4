"""The shapes that atc is told: inputs, and the profiles of dynamic batches, images and dimensions.

The rules are atc's own (their error codes stand beside them); here they are checked before it is
started, which takes minutes.
"""

import re
from dataclasses import dataclass
from typing import Final

from ascend_ops.errors import InvalidInputError

PROFILES_MIN: Final = 2
PROFILES_MAX: Final = 100
# Where batch, height and width stand, by format; ND has none.
AXES: Final = {"NCHW": (0, 2, 3), "NHWC": (0, 1, 2), "NCDHW": (0, 3, 4), "NDHWC": (0, 2, 3)}


@dataclass(frozen=True)
class InputShape:
    """One input: a number is its size, −1 any, and a pair the least and the most."""

    name: str
    sizes: tuple[int | tuple[int, int], ...]


def parse_shapes(text: str) -> tuple[InputShape, ...]:
    """`x:1,224,224,3;y:-1,8` → its inputs, in order; InvalidInputError otherwise (E10002)."""
    inputs = []
    for part in text.split(";"):
        name, colon, sizes = part.strip().rpartition(":")
        if not (colon and name):
            raise InvalidInputError(
                f"--input-shape: {part!r} is not name:size,size,…; separate inputs by ; as in "
                "x:1,224,224,3;y:1,8"
            )
        inputs.append(InputShape(name, tuple(_size(part, size) for size in sizes.split(","))))
    names = [one.name for one in inputs]
    if len(set(names)) < len(names):
        raise InvalidInputError(f"--input-shape names an input twice: {text}")
    return tuple(inputs)


def _size(part: str, text: str) -> int | tuple[int, int]:
    text = text.strip()
    if pair := re.fullmatch(r"(\d+)~(\d+|-1)", text):
        low, high = int(pair.group(1)), int(pair.group(2))
        if high == -1 or 1 <= low <= high:
            return low, high
    elif re.fullmatch(r"-1|[1-9]\d*", text):
        return int(text)
    raise InvalidInputError(
        f"--input-shape: {text!r} in {part!r} is no size: a whole number above 0, -1 for any, or "
        "1~8 for a range"
    )


def parse_profiles(option: str, text: str) -> list[tuple[int, ...]]:
    """Profiles like `1,4,8` (batches) or `224,224;448,448`, checked alone (E10035 to E10039)."""
    one = option == "--dynamic-batch-size"
    parts = text.split("," if one else ";")
    try:
        profiles = [tuple(int(size) for size in part.split(",")) for part in parts]
    except ValueError:
        raise InvalidInputError(f"{option}: {text!r} has something that is no number") from None
    if not PROFILES_MIN <= len(profiles) <= PROFILES_MAX:
        raise InvalidInputError(
            f"{option} has {len(profiles)} profiles; atc takes {PROFILES_MIN} to {PROFILES_MAX}"
        )
    if len(set(profiles)) < len(profiles):
        raise InvalidInputError(f"{option} has a profile twice: {text}")
    if len({len(profile) for profile in profiles}) > 1:
        raise InvalidInputError(f"{option}: profiles must have one length: {text}")
    if min(size for profile in profiles for size in profile) < 1:
        raise InvalidInputError(f"{option}: sizes are above 0: {text}")
    return profiles


def check_dynamic(
    options: dict[str, str], inputs: tuple[InputShape, ...], input_format: str
) -> None:
    """At most one dynamic option, and −1 in the input shapes exactly where it wants it."""
    if len(options) > 1:
        raise InvalidInputError(f"{' and '.join(options)} exclude each other; choose one")
    for option, text in options.items():
        profiles = parse_profiles(option, text)
        if any(isinstance(size, tuple) for one in inputs for size in one.sizes):
            raise InvalidInputError(f"{option} and a range (~) in --input-shape exclude each other")
        free = [(one, axis) for one in inputs for axis, size in enumerate(one.sizes) if size == -1]
        if not free:
            raise InvalidInputError(f"{option} needs a -1 in --input-shape, for what is dynamic")
        check = {
            "--dynamic-batch-size": _check_batches,
            "--dynamic-image-size": _check_images,
            "--dynamic-dims": _check_dims,
        }
        check[option](profiles, free, input_format)


Free = list[tuple[InputShape, int]]


def _check_batches(profiles: list[tuple[int, ...]], free: Free, input_format: str) -> None:
    wrong = [one.name for one, axis in free if axis != 0]
    if wrong:
        raise InvalidInputError(
            f"--dynamic-batch-size: only the batch, the first size, may be -1; {wrong[0]} has "
            "another (--dynamic-dims allows that)"
        )


def _check_images(profiles: list[tuple[int, ...]], free: Free, input_format: str) -> None:
    if len(profiles[0]) != 2:
        raise InvalidInputError("--dynamic-image-size: a profile is height,width")
    if input_format not in AXES:
        raise InvalidInputError(
            f"--dynamic-image-size needs --input-format NCHW or NHWC, not {input_format or 'none'}"
        )
    allowed = AXES[input_format][1:]
    wrong = [one.name for one, axis in free if axis not in allowed]
    if wrong:
        raise InvalidInputError(
            f"--dynamic-image-size: only height and width may be -1 in {input_format}; {wrong[0]} "
            "has another"
        )


def _check_dims(profiles: list[tuple[int, ...]], free: Free, input_format: str) -> None:
    if input_format != "ND":
        raise InvalidInputError("--dynamic-dims needs --input-format ND")
    if len(profiles[0]) != len(free):
        raise InvalidInputError(
            f"--dynamic-dims: a profile has {len(profiles[0])} sizes, and --input-shape has "
            f"{len(free)} times -1; they must be as many"
        )
