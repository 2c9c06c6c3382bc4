# ascend_stage_kernel(KERNELS_DIR FOLDER OUTPUT [OPERATOR_DIR]): OUTPUT/FOLDER with the entry file of
# an operator and every header that it needs, side by side. Includes lose their folders, nothing else
# changes. A user's own operator lies in OPERATOR_DIR, one of ours in KERNELS_DIR/FOLDER.
function(ascend_stage_kernel kernels_dir folder output)
  set(operator_dir ${kernels_dir}/${folder})
  if(ARGC GREATER 3)
    set(operator_dir ${ARGV3})
  endif()
  file(GLOB sources ${operator_dir}/op_kernel/*.cpp ${operator_dir}/*.h
       ${kernels_dir}/common/elementwise_tiling.h ${kernels_dir}/common/tile_copy.h
       ${kernels_dir}/common/cube_*.h)
  foreach(source IN LISTS sources)
    get_filename_component(name ${source} NAME)
    file(READ ${source} text)
    string(REGEX REPLACE "#include \"\\.\\./([a-z_]+/)?" "#include \"" text "${text}")
    file(CONFIGURE OUTPUT ${output}/${folder}/${name} CONTENT "${text}" @ONLY)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
  endforeach()
endfunction()
