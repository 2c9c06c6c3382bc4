"""The package's errors.

AscendOpsError
├── LibraryError          a compiled library is missing or cannot be loaded
├── BuildMismatchError    a library was built for another TensorFlow
├── ViolationError        a kernel broke a rule of the hardware (checked build)
├── InvalidInputError     a file, an option or a model is not what it must be; nothing was touched
├── MissingModuleError    a Python package that the tool needs is not installed
├── BuildError            operators could not be built
└── ConversionError       the tool of CANN that was called said no

Arguments of the wrong type or shape raise TypeError and ValueError, as NumPy's functions do.
"""

from typing import ClassVar


class AscendOpsError(Exception):
    """Something that this package can explain; the text says what, why and what to do next.

    `exit_code` is what the command-line tools of this package end with: opsctl's codes.
    """

    exit_code: ClassVar[int] = 13


class LibraryError(AscendOpsError):
    """A compiled library is missing or cannot be loaded."""


class BuildMismatchError(AscendOpsError):
    """A library was built for another version or ABI of TensorFlow than the installed one."""


class ViolationError(AscendOpsError):
    """A kernel did what the hardware forbids; names operator, core, tile and address."""


class InvalidInputError(AscendOpsError):
    """A file, an option or a model is not what it must be; nothing was touched."""

    exit_code = 2


class MissingModuleError(AscendOpsError):
    """A Python package that the tool needs is not installed; nothing was touched."""

    exit_code = 4


class BuildError(AscendOpsError):
    """Operators could not be built: what the compiler or CMake said."""

    exit_code = 5


class ConversionError(AscendOpsError):
    """A tool of CANN (atc, msprof) is missing or failed."""

    exit_code = 5
