# A user's own operators: ASCEND_EXTRA_OPERATORS is a list of folders, each laid out like sigmoid/
# and named like its operator. They are compiled into the same libraries as the operators here.

set(ASCEND_EXTRA_NAMES)
set(extra_rows "// Generated: the operators of ASCEND_EXTRA_OPERATORS.\n")
foreach(folder IN LISTS ASCEND_EXTRA_OPERATORS)
  get_filename_component(name ${folder} NAME)
  foreach(file ${name}_cpusim.cpp ${name}_cases.py)
    if(NOT EXISTS ${folder}/${file})
      message(FATAL_ERROR "ascend-ops: ${folder} is no operator folder: ${file} is missing. "
                          "Make one with: opsctl kernels new ${name}")
    endif()
  endforeach()
  if(NOT name MATCHES "^[a-z][a-z0-9]*(_[a-z0-9]+)*$")
    message(FATAL_ERROR "ascend-ops: ${name} is no name of an operator: words of a-z and 0-9, "
                        "joined by _. Rename ${folder}")
  endif()
  if(name IN_LIST ASCEND_OPERATORS OR name IN_LIST ASCEND_EXTRA_NAMES)
    message(FATAL_ERROR "ascend-ops: two operators are called ${name}. Rename ${folder}")
  endif()
  list(APPEND ASCEND_EXTRA_NAMES ${name})
  string(REPLACE "_" ";" words ${name})
  set(camel)
  foreach(word IN LISTS words)
    string(SUBSTRING ${word} 0 1 first)
    string(SUBSTRING ${word} 1 -1 rest)
    string(TOUPPER ${first} first)
    string(APPEND camel ${first}${rest})
  endforeach()
  string(APPEND extra_rows "ASCEND_OPERATOR(k${camel})\n")
endforeach()
# Only written when it changed: another folder's edit compiles nothing again.
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/extra_operators.inc CONTENT "${extra_rows}"
     @ONLY)

# The sources, for a user who has the wheel and not the repository.
function(ascend_install_sources)
  install(
    DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/
    DESTINATION ${ASCEND_PACKAGE_DIR}/source
    PATTERN "build" EXCLUDE
    PATTERN "tests" EXCLUDE
    PATTERN "python" EXCLUDE
    PATTERN "__pycache__" EXCLUDE
    PATTERN "*.egg-info" EXCLUDE
    PATTERN "*.so" EXCLUDE
    PATTERN ".*" EXCLUDE)
endfunction()
