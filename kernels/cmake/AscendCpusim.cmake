# The kernels on the host: a library for each instruction set, and one with every check on.

# -fno-trapping-math lets the exponential's selects vectorise below AVX-512. Contraction is off:
# one vector instruction of the NPU rounds once, and two of them must not become one here. Unique
# symbols would be shared between the builds, which are loaded side by side.
set(ASCEND_KERNEL_FLAGS
    -Wall -Wextra -Werror -O3 -fno-math-errno -fno-trapping-math -ffp-contract=off)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND ASCEND_KERNEL_FLAGS -fno-gnu-unique)
endif()
if(ASCEND_SANITIZE)
  add_compile_options(-fsanitize=${ASCEND_SANITIZE} -fno-omit-frame-pointer -g)
  add_link_options(-fsanitize=${ASCEND_SANITIZE})
endif()

set(ASCEND_CPUSIM_SOURCES runtime/cpusim_library.cpp runtime/cpusim_operator.cpp)
foreach(operator IN LISTS ASCEND_OPERATORS)
  list(APPEND ASCEND_CPUSIM_SOURCES ${operator}/${operator}_cpusim.cpp)
endforeach()
foreach(folder name IN ZIP_LISTS ASCEND_EXTRA_OPERATORS ASCEND_EXTRA_NAMES)
  list(APPEND ASCEND_CPUSIM_SOURCES ${folder}/${name}_cpusim.cpp)
endforeach()

# The CPU backend of sigmoid and of the operators of the cube unit: a product and a sum may become one
# instruction, as no NPU's rounding is to be followed.
set(ASCEND_CPU_SOURCES cpu/conv2d_bias_relu_cpu.cpp cpu/embedding_dense_grad_cpu.cpp cpu/gemm.cpp
                       cpu/gemm_plan.cpp cpu/matmul_bias_act_cpu.cpp cpu/micro_kernel.cpp
                       cpu/sigmoid_cpu.cpp)
set_source_files_properties(${ASCEND_CPU_SOURCES} PROPERTIES COMPILE_OPTIONS -ffp-contract=fast)

# ascend_add_variant(NAME CHECKED FLAGS...): libascend_cpusim_NAME.so
function(ascend_add_variant name checked)
  set(target ascend_cpusim_${name})
  add_library(${target} SHARED ${ASCEND_CPUSIM_SOURCES})
  if(checked)
    target_sources(${target} PRIVATE cpusim/checker.cpp cpusim/cross_core.cpp
                                             sigmoid/naive/sigmoid_naive_cpusim.cpp)
  else()
    target_sources(${target} PRIVATE ${ASCEND_CPU_SOURCES})
  endif()
  target_include_directories(${target} PRIVATE cpusim/include runtime
                                               ${CMAKE_BINARY_DIR}/generated)
  target_compile_definitions(
    ${target} PRIVATE CPUSIM_CHECKED=${checked} __NPU_ARCH__=${ASCEND_NPU_ARCH}
                      ASCEND_VARIANT="${name}")
  target_compile_options(${target} PRIVATE ${ASCEND_KERNEL_FLAGS} ${ARGN})
  install(TARGETS ${target} LIBRARY DESTINATION ${ASCEND_PACKAGE_DIR})
endfunction()

# Never one library with functions of two instruction sets: the linker keeps one copy of an inline
# function, and it may be the one that this CPU cannot run.
function(ascend_add_cpusim_variants)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
    ascend_add_variant(x86-64 0 -march=x86-64)
    ascend_add_variant(x86-64-v3 0 -march=x86-64-v3)
    ascend_add_variant(x86-64-v4 0 -march=x86-64-v4 -mprefer-vector-width=512)
    set(variants x86-64 x86-64-v3 x86-64-v4)
  elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
    ascend_add_variant(aarch64 0)
    set(variants aarch64)
  else()
    ascend_add_variant(generic 0)
    set(variants generic)
  endif()
  ascend_add_variant(checked 1)
  set(ASCEND_VARIANTS ${variants} checked PARENT_SCOPE)
endfunction()

function(ascend_add_dispatcher)
  add_library(ascend_ops SHARED runtime/dispatch.cpp)
  target_include_directories(ascend_ops PUBLIC runtime)
  target_compile_options(ascend_ops PRIVATE -Wall -Wextra -Werror -O2)
  target_link_libraries(ascend_ops PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
  install(TARGETS ascend_ops LIBRARY DESTINATION ${ASCEND_PACKAGE_DIR})
endfunction()

# Each operator's reference, cases and tolerances become a module of ascend_ops.cases.
function(ascend_install_cases)
  foreach(operator IN LISTS ASCEND_OPERATORS)
    install(FILES ${operator}/${operator}_cases.py DESTINATION ${ASCEND_PACKAGE_DIR}/cases)
  endforeach()
  foreach(folder name IN ZIP_LISTS ASCEND_EXTRA_OPERATORS ASCEND_EXTRA_NAMES)
    install(FILES ${folder}/${name}_cases.py DESTINATION ${ASCEND_PACKAGE_DIR}/cases)
  endforeach()
endfunction()

# What was built and against what: read by the front ends before they load a library.
function(ascend_install_build_record)
  list(JOIN ASCEND_VARIANTS "\", \"" variants)
  set(operators ${ASCEND_OPERATORS} ${ASCEND_EXTRA_NAMES})
  list(JOIN operators "\", \"" operators)
  configure_file(cmake/build_record.json.in build_record.json @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/build_record.json DESTINATION ${ASCEND_PACKAGE_DIR})
endfunction()
