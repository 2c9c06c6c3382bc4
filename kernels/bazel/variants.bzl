"""One library of kernels for each instruction set; the flags are those of cmake/AscendCpusim.cmake."""

KERNEL_FLAGS = [
    "-std=c++17",
    "-Wall",
    "-Wextra",
    "-O3",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffp-contract=off",
    "-fvisibility=hidden",
    "-fvisibility-inlines-hidden",
    "-fno-gnu-unique",
]

VARIANTS = {
    "x86-64": ["-march=x86-64"],
    "x86-64-v3": ["-march=x86-64-v3"],
    "x86-64-v4": ["-march=x86-64-v4", "-mprefer-vector-width=512"],
}

def library_name(variant):
    """The file of a variant, beside the dispatcher that loads it."""
    return "libascend_cpusim_%s.so" % variant

def ascend_variant(name, copts, checked = False):
    """libascend_cpusim_<name>.so; the checked build has the hardware's rules in it.

    Args:
      name: of the variant, as the dispatcher asks for it.
      copts: flags of the instruction set.
      checked: whether kernels are held to the rules of the hardware.
    """
    defines = [
        "CPUSIM_CHECKED=%d" % (1 if checked else 0),
        "__NPU_ARCH__=2201",
        'ASCEND_VARIANT=\\"%s\\"' % name,
    ]
    flags = KERNEL_FLAGS + copts + ["-D" + define for define in defines]
    deps = [":kernel_headers"]
    sources = ["//:kernel_sources"]
    if checked:
        sources = sources + ["//:checker_sources"]
    else:
        native.cc_library(
            name = "cpu_" + name,
            srcs = ["//:cpu_sources"],
            copts = flags + ["-ffp-contract=fast"],
            linkstatic = True,
            alwayslink = True,
            deps = deps,
        )
        deps = deps + [":cpu_" + name]
    native.cc_binary(
        name = library_name(name),
        srcs = sources,
        copts = flags,
        linkopts = ["-lpthread"],
        linkshared = True,
        deps = deps,
    )
