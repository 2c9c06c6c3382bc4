"""Arguments of the commands that call the operator library: kernels, model and profile."""

from __future__ import annotations

import argparse

Parser = argparse.ArgumentParser

NPU_ARCHS = ("1001", "2002", "2201", "3510")
LOG_LEVELS = ("null", "debug", "info", "warning", "error")
FRAMEWORKS = ("caffe", "mindspore", "tensorflow", "onnx")


def _python(parser: Parser) -> None:
    parser.add_argument(
        "--python", metavar="PATH", help="Python that has ascend-ops (default: opsctl's own)"
    )


def kernels_new(parser: Parser) -> None:
    """`kernels new`."""
    _python(parser)
    parser.add_argument("name", metavar="NAME", help="like scaled_tanh")
    parser.add_argument(
        "directory", nargs="?", default=".", metavar="DIR", help="where (default: here)"
    )


def kernels_build(parser: Parser) -> None:
    """`kernels build`, and what test and bench share with it."""
    _python(parser)
    parser.add_argument(
        "folders", nargs="*", metavar="FOLDER", help="operators, or folders of them (default: here)"
    )
    parser.add_argument(
        "--build-dir", default=".opsctl/kernels", metavar="DIR", help="CMake's files"
    )
    parser.add_argument(
        "--install", metavar="DIR", help="where the package ascend_ops goes (default: --build-dir)"
    )
    parser.add_argument("--source", metavar="DIR", help="sources (default: those of the wheel)")
    parser.add_argument(
        "--tensorflow", choices=("auto", "on", "off"), help="TensorFlow ops (build: auto, else off)"
    )
    parser.add_argument("--npu-arch", choices=NPU_ARCHS, help="SoC family (default 2201)")


def kernels_bench(parser: Parser) -> None:
    """`kernels bench`."""
    kernels_build(parser)
    parser.add_argument("--sizes", nargs="+", type=int, metavar="N", help="elements")
    parser.add_argument("--runs", type=int, metavar="N", help="timed calls (default 100)")
    parser.add_argument(
        "--cycles", action="store_true", help="only the real sigmoid against a naive one, estimated"
    )


def model_optimize(parser: Parser) -> None:
    """`model optimize`."""
    _python(parser)
    parser.add_argument(
        "model", metavar="MODEL", help="SavedModel folder, frozen graph (.pb) or .onnx"
    )
    parser.add_argument("--to", metavar="PATH", help="SavedModel folder, .pb or .onnx to write")
    parser.add_argument("--signature", metavar="NAME", help="default: serving_default")
    parser.add_argument("--inputs", nargs="+", metavar="TENSOR", help="of a frozen graph, like x:0")
    parser.add_argument("--outputs", nargs="+", metavar="TENSOR", help="of a frozen graph")
    parser.add_argument(
        "--without-custom-ops", action="store_true", help="no fused ops: loads in any TensorFlow"
    )
    parser.add_argument(
        "--layout", choices=("keep", "nhwc"), help="nhwc: turn convolutions of NCHW (default keep)"
    )
    parser.add_argument(
        "--no-compare", action="store_true", help="don't run both to compare answers and time"
    )
    parser.add_argument("--batch", type=int, metavar="N", help="to compare with (default 32)")
    parser.add_argument(
        "--for-atc", action="store_true", help="an ONNX model that `model convert` reads"
    )


def model_convert(parser: Parser) -> None:
    """`model convert`: the names of atc's own options."""
    _python(parser)
    parser.add_argument("model", metavar="MODEL", help=".pb, .onnx, .prototxt or .air")
    parser.add_argument("--to", metavar="PATH", help="the .om to write, without its ending")
    parser.add_argument("--framework", choices=FRAMEWORKS, help="default: by the model's ending")
    parser.add_argument("--weight", metavar="FILE", help="of a Caffe model")
    parser.add_argument("--soc-version", metavar="SOC", help="like Ascend910B1 or Ascend310P3")
    parser.add_argument("--input-shape", metavar="SHAPES", help="like x:1,224,224,3;y:1,8")
    parser.add_argument("--input-format", metavar="FORMAT", help="NCHW, NHWC or ND")
    parser.add_argument("--out-nodes", metavar="NODES", help="like dense:0;softmax:0")
    parser.add_argument("--output-type", metavar="TYPE", help="FP32, FP16 or UINT8")
    parser.add_argument("--precision-mode", metavar="MODE", help="like allow_fp32_to_fp16")
    parser.add_argument("--precision-mode-v2", metavar="MODE", help="like mixed_float16")
    parser.add_argument("--aipp", metavar="FILE", help="image preprocessing, YAML or JSON")
    parser.add_argument("--dynamic-batch-size", metavar="SIZES", help="like 1,4,16,32")
    parser.add_argument("--dynamic-image-size", metavar="SIZES", help="like 224,224;448,448")
    parser.add_argument("--dynamic-dims", metavar="DIMS", help="like 1,128;4,128")
    parser.add_argument("--op-select-implmode", metavar="MODE", help="like high_precision")
    parser.add_argument("--optypelist-for-implmode", metavar="TYPES", help="like Gelu,SoftmaxV2")
    parser.add_argument("--log", choices=LOG_LEVELS, help="how much atc says")
    parser.add_argument("--atc", metavar="PATH", help="default: in the search path, or CANN's")


def profile_analyse(parser: Parser) -> None:
    """`profile analyse`."""
    _profile(parser)
    parser.add_argument("directory", metavar="DIR", help="what msprof wrote (PROF_…), or above it")


def profile_run(parser: Parser) -> None:
    """`profile run`."""
    _profile(parser)
    parser.add_argument("--directory", metavar="DIR", help="for msprof's files (default: profile)")
    parser.add_argument("--iterations", type=int, metavar="N", help="runs of it (default 100)")
    parser.add_argument("--msprof", metavar="PATH", help="default: in the search path, or CANN's")
    parser.add_argument("program", nargs="+", metavar="COMMAND", help="behind --: what to run")


def _profile(parser: Parser) -> None:
    _python(parser)
    parser.add_argument("--top", type=int, metavar="N", help="how many ops (default 10)")
    parser.add_argument(
        "--peak-gb-s", type=float, metavar="GB", help="memory bandwidth of the device, to judge by"
    )
    parser.add_argument("--plot", metavar="FILE", help="draw it, as PNG")
