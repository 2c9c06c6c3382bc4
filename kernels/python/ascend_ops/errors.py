"""The package's errors.

AscendOpsError
├── LibraryError          a compiled library is missing or cannot be loaded
├── BuildMismatchError    a library was built for another TensorFlow
└── ViolationError        a kernel broke a rule of the hardware (checked build)

Arguments of the wrong type or shape raise TypeError and ValueError, as NumPy's functions do.
"""


class AscendOpsError(Exception):
    """Something that this package can explain; the text says what, why and what to do next."""


class LibraryError(AscendOpsError):
    """A compiled library is missing or cannot be loaded."""


class BuildMismatchError(AscendOpsError):
    """A library was built for another version or ABI of TensorFlow than the installed one."""


class ViolationError(AscendOpsError):
    """A kernel did what the hardware forbids; names operator, core, tile and address."""
