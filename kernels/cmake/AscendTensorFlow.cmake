# The TensorFlow front end, built when the interpreter that builds the package has TensorFlow.

set(ASCEND_TENSORFLOW AUTO CACHE STRING
    "AUTO builds the TensorFlow library when tensorflow is installed, ON demands it, OFF skips it")

# Asks the installed TensorFlow for its version, flags and ABI: they differ between its releases.
function(ascend_find_tensorflow)
  if(ASCEND_TENSORFLOW STREQUAL "OFF")
    return()
  endif()
  if(ASCEND_NPU_ARCH EQUAL 1001 OR ASCEND_NPU_ARCH EQUAL 2002)
    # Kernels for these copy whole 32-byte blocks, and TensorFlow's tensors end anywhere.
    message(STATUS "ascend-ops: no TensorFlow library for SoC family ${ASCEND_NPU_ARCH}")
    return()
  endif()
  find_package(Python REQUIRED COMPONENTS Interpreter)
  set(script ${CMAKE_CURRENT_SOURCE_DIR}/cmake/tensorflow_flags.py)
  execute_process(COMMAND ${Python_EXECUTABLE} ${script} --mark
                  OUTPUT_VARIABLE mark ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  # TensorFlow takes longer to say this than an operator to compile: it is asked once.
  set(failed 0)
  if(mark AND mark STREQUAL ASCEND_TENSORFLOW_MARK)
    set(answer "${ASCEND_TENSORFLOW_ANSWER}")
  else()
    execute_process(
      COMMAND ${CMAKE_COMMAND} -E env TF_CPP_MIN_LOG_LEVEL=3 ${Python_EXECUTABLE} ${script}
      OUTPUT_VARIABLE answer ERROR_VARIABLE reason RESULT_VARIABLE failed
      OUTPUT_STRIP_TRAILING_WHITESPACE)
  endif()
  if(failed)
    if(ASCEND_TENSORFLOW STREQUAL "ON")
      message(FATAL_ERROR "ascend-ops: no TensorFlow for ${Python_EXECUTABLE}: ${reason}")
    endif()
    message(STATUS "ascend-ops: no TensorFlow for ${Python_EXECUTABLE}; building without it")
    return()
  endif()
  set(ASCEND_TENSORFLOW_MARK "${mark}" CACHE INTERNAL "The TensorFlow that gave the answer")
  set(ASCEND_TENSORFLOW_ANSWER "${answer}" CACHE INTERNAL "What it said of itself")
  string(JSON version GET "${answer}" version)
  string(JSON abi GET "${answer}" cxx11_abi)
  string(JSON include GET "${answer}" include)
  string(JSON library GET "${answer}" library)
  string(JSON standard GET "${answer}" cxx_standard)
  string(JSON definitions GET "${answer}" definitions)
  message(STATUS "ascend-ops: TensorFlow ${version}, C++${standard}, CXX11 ABI ${abi}")
  set(ASCEND_TENSORFLOW_VERSION ${version} PARENT_SCOPE)
  set(ASCEND_TENSORFLOW_ABI ${abi} PARENT_SCOPE)
  set(ASCEND_TENSORFLOW_INCLUDE ${include} PARENT_SCOPE)
  set(ASCEND_TENSORFLOW_LIBRARY ${library} PARENT_SCOPE)
  set(ASCEND_TENSORFLOW_STANDARD ${standard} PARENT_SCOPE)
  set(ASCEND_TENSORFLOW_DEFINITIONS ${definitions} PARENT_SCOPE)
endfunction()

macro(ascend_add_tensorflow_front_end)
  ascend_find_tensorflow()
  if(ASCEND_TENSORFLOW_VERSION)
    add_library(ascend_tensorflow SHARED tensorflow/elementwise_ops.cc
                                         tensorflow/embedding_ops.cc
                                         tensorflow/fused_conv_op.cc
                                         tensorflow/fused_matmul_op.cc
                                         tensorflow/gather_ops.cc)
    foreach(folder name IN ZIP_LISTS ASCEND_EXTRA_OPERATORS ASCEND_EXTRA_NAMES)
      if(EXISTS ${folder}/${name}_tensorflow.cc)
        target_sources(ascend_tensorflow PRIVATE ${folder}/${name}_tensorflow.cc)
      endif()
    endforeach()
    target_include_directories(ascend_tensorflow PRIVATE tensorflow)
    target_include_directories(ascend_tensorflow SYSTEM PRIVATE ${ASCEND_TENSORFLOW_INCLUDE})
    target_compile_definitions(ascend_tensorflow PRIVATE ${ASCEND_TENSORFLOW_DEFINITIONS})
    target_compile_options(ascend_tensorflow PRIVATE -Wall -O2)
    target_link_libraries(ascend_tensorflow PRIVATE ascend_ops ${ASCEND_TENSORFLOW_LIBRARY})
    set_target_properties(
      ascend_tensorflow PROPERTIES CXX_STANDARD ${ASCEND_TENSORFLOW_STANDARD}
                                   BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN")
    install(TARGETS ascend_tensorflow LIBRARY DESTINATION ${ASCEND_PACKAGE_DIR})
  endif()
endmacro()
