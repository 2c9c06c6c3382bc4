"""The installed TensorFlow as a repository, by the flags that it gives itself."""

_EMPTY = """
VERSION = ""
ABI = ""
COPTS = []
"""

_FLAGS = """
VERSION = "{version}"
ABI = "{cxx11_abi}"
COPTS = {copts}
"""

_BUILD = """
package(default_visibility = ["//visibility:public"])

cc_library(
    name = "tensorflow",
    srcs = ["{library}"],
    hdrs = glob(["include/**"]),
    includes = ["include"],
)
"""

def _field(text, name):
    """The value of one string in a flat JSON object (old Bazel has no JSON decoder)."""
    start = text.find('"%s": "' % name) + len(name) + 5
    return text[start:text.find('"', start)]

def _tensorflow_configure(ctx):
    python = ctx.os.environ.get("PYTHON_BIN_PATH", "python3")
    script = ctx.path(Label("//:cmake/tensorflow_flags.py"))
    answer = ctx.execute([python, script], environment = {"TF_CPP_MIN_LOG_LEVEL": "3"}, timeout = 600)
    if answer.return_code != 0:
        ctx.file("flags.bzl", _EMPTY)
        ctx.file("BUILD.bazel", "")
        return
    library = _field(answer.stdout, "library")
    name = library.split("/")[-1]
    ctx.symlink(_field(answer.stdout, "include"), "include")
    ctx.symlink(library, name)
    copts = ["-std=c++" + _field(answer.stdout, "cxx_standard")]
    copts += ["-D" + word for word in _field(answer.stdout, "definitions").split(";") if word]
    ctx.file("flags.bzl", _FLAGS.format(
        copts = repr(copts),
        cxx11_abi = _field(answer.stdout, "cxx11_abi"),
        version = _field(answer.stdout, "version"),
    ))
    ctx.file("BUILD.bazel", _BUILD.format(library = name))

tensorflow_configure = repository_rule(
    implementation = _tensorflow_configure,
    environ = ["PYTHON_BIN_PATH", "PATH"],
    local = True,
)
