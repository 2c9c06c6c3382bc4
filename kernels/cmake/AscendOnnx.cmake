# The custom operators for ONNX Runtime. It needs nothing of ONNX Runtime to be built.

function(ascend_add_onnxruntime_front_end)
  if(ASCEND_NPU_ARCH EQUAL 1001 OR ASCEND_NPU_ARCH EQUAL 2002)
    # Kernels for these copy whole 32-byte blocks, and ONNX Runtime's tensors end anywhere.
    return()
  endif()
  add_library(ascend_onnxruntime SHARED onnx/custom_ops.cc onnx/gather_op.cc onnx/matmul_op.cc
                                        onnx/run_operator.cc)
  target_compile_options(ascend_onnxruntime PRIVATE -Wall -Wextra -Werror -O2)
  target_link_libraries(ascend_onnxruntime PRIVATE ascend_ops)
  set_target_properties(ascend_onnxruntime PROPERTIES BUILD_WITH_INSTALL_RPATH ON
                                                      INSTALL_RPATH "$ORIGIN")
  install(TARGETS ascend_onnxruntime LIBRARY DESTINATION ${ASCEND_PACKAGE_DIR})
endfunction()
