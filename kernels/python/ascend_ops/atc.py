"""`python -m ascend_ops.atc MODEL --to PATH --soc-version SOC …`: a model for NPUs, through atc.

Called by `opsctl model convert`. atc is started without a shell; what it says goes to stderr as it
comes.
"""

import argparse
import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Final

from ascend_ops.aipp import format_aipp
from ascend_ops.atc_arguments import Arguments, ConvertOptions, build_arguments
from ascend_ops.atc_errors import explain
from ascend_ops.errors import ConversionError, InvalidInputError
from ascend_ops.tool import Answer, answer

TOOLKIT_VARIABLES: Final = ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME")
LINES_KEPT: Final = 2000  # of the log, for the error's code; with --log debug it has millions


def find_atc(given: str | None) -> str:
    """The path of atc: the given one, in the search path, or in the CANN toolkit's folders."""
    homes = [os.environ[name] for name in TOOLKIT_VARIABLES if os.environ.get(name)]
    folders = [os.path.join(home, part) for home in homes for part in ("bin", "atc/bin")]
    search = os.pathsep.join([os.environ.get("PATH", os.defpath), *folders])
    found = shutil.which(given or "atc", path=search)
    if found is None:
        raise ConversionError(
            f"there is no {given or 'atc'}: it comes with the CANN toolkit. Install that, run its "
            "set_env.sh, or name it: --atc PATH"
        )
    return found


def convert(options: ConvertOptions, atc: str | None, *, dry_run: bool = False) -> Answer:
    """Runs atc; the answer names the model that it wrote.

    InvalidInputError before it is started, ConversionError with its code and a remedy after.
    """
    arguments = build_arguments(options)
    command = [atc or "atc", *arguments.words] if dry_run else [find_atc(atc), *arguments.words]
    aipp = format_aipp(list(arguments.aipp))
    notes = "".join(f"\nnote: {note}" for note in arguments.notes)
    if dry_run:
        text = shlex.join(command) + (f"\n{arguments.aipp_path}:\n{aipp}" if aipp else "") + notes
        return Answer("planned", text, {"command": command, "aipp": aipp})
    made = _run(command, arguments, options.output, aipp)
    return Answer("converted", f"wrote {made}{notes}", {"command": command, "model": str(made)})


def _run(command: list[str], arguments: Arguments, output: Path, aipp: str) -> Path:
    if aipp:
        try:
            arguments.aipp_path.write_text(aipp, encoding="utf-8")
        except OSError as error:
            raise InvalidInputError(
                f"cannot write {arguments.aipp_path}: {error.strerror}. Choose another --to"
            ) from error
    before = {path: path.stat().st_mtime_ns for path in output.parent.glob(f"{output.name}*.om")}
    lines, exit_code = _stream(command)
    failed = exit_code != 0 or any("ATC run failed" in line for line in lines)
    if failed:
        raise ConversionError(explain(lines, exit_code))
    # atc adds the system to the name when it differs, as in model_linux_x86_64.om.
    made = [
        path
        for path in output.parent.glob(f"{output.name}*.om")
        if before.get(path) != path.stat().st_mtime_ns
    ]
    if not made:
        raise ConversionError(
            f"atc ended well and wrote no {output}.om. Next: run again with --log info"
        )
    return min(made, key=lambda path: len(path.name))


def _stream(command: list[str]) -> tuple[list[str], int]:
    """Shows the log as it comes; its first and last lines, and the exit code."""
    lines: list[str] = []
    try:
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                print(line, end="", file=sys.stderr, flush=True)
                lines.append(line)
                if len(lines) > 2 * LINES_KEPT:
                    del lines[LINES_KEPT // 2 : -LINES_KEPT]
    except OSError as error:
        raise ConversionError(
            f"cannot start {command[0]}: {error.strerror}. Name CANN's: --atc PATH"
        ) from error
    return lines, process.returncode


def parse() -> argparse.Namespace:
    """The command line; opsctl's has the same options, with their help."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--atc")
    parser.add_argument("model", type=Path)
    parser.add_argument("--to", type=Path, dest="output")
    for field in fields(ConvertOptions):
        if field.name not in ("model", "output"):
            kind = Path if field.name in ("weight", "aipp") else str
            parser.add_argument(f"--{field.name.replace('_', '-')}", type=kind)
    return parser.parse_args()


def act(a: argparse.Namespace) -> Answer:
    """One conversion; without --to beside the model, with its name."""
    given = {field.name: getattr(a, field.name) for field in fields(ConvertOptions)}
    given["output"] = a.output or a.model.with_suffix("")
    given["soc_version"] = a.soc_version or ""
    options = ConvertOptions(**{name: value for name, value in given.items() if value is not None})
    return convert(options, a.atc, dry_run=a.dry_run)


def main() -> int:
    """One conversion; the exit code is opsctl's."""
    a = parse()
    return answer(lambda: act(a), as_json=a.json)


if __name__ == "__main__":
    sys.exit(main())
