# The layer table, the form of files, each header alone.
# SPDX-License-Identifier: Apache-2.0

# Needs neither MPI nor any module, so that it runs when they do not build.
add_executable(style_test style_test.cpp size_test.cpp includes_test.cpp selftest_test.cpp
               class_scan.cpp source_tree.cpp)
target_include_directories(style_test PRIVATE ${PROJECT_SOURCE_DIR}/tests)
target_compile_features(style_test PRIVATE cxx_std_20)
target_link_libraries(style_test PRIVATE GTest::gtest_main)
trireme_add_test(style COMMAND style_test)
trireme_add_test(style.format LONG COMMAND
                 ${CMAKE_CURRENT_SOURCE_DIR}/check_format.sh ${PROJECT_SOURCE_DIR})

trireme_add_test(style.spack LONG COMMAND
                 bash ${CMAKE_CURRENT_SOURCE_DIR}/spack_options.sh ${PROJECT_SOURCE_DIR})

# Each header compiles alone. Where a source file of this build includes it before anything
# else, that file has shown it; for the others, one file each that includes it and nothing
# else.
if(TRIREME_CHECK_HEADERS)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}
       ${PROJECT_SOURCE_DIR}/src/*.hpp ${PROJECT_SOURCE_DIR}/kernels/*.hpp
       ${PROJECT_SOURCE_DIR}/comm/*.hpp ${PROJECT_SOURCE_DIR}/io/*.hpp)
  # Those that need NVIDIA's headers are compiled with the back end that they belong to.
  # Those of the emulated CUDA stand for NVIDIA's and come by way of those names.
  list(FILTER headers EXCLUDE REGEX "/(cudnn|nvidia|nccl)/|^kernels/cuda_emulation/include/")
  if(NOT TRIREME_CUDA STREQUAL "EMULATED")
    list(FILTER headers EXCLUDE REGEX "^src/base/cuda/|^kernels/cuda_emulation/")
  endif()
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS
       ${PROJECT_SOURCE_DIR}/src/*.cpp ${PROJECT_SOURCE_DIR}/kernels/*.cpp
       ${PROJECT_SOURCE_DIR}/comm/*.cpp ${PROJECT_SOURCE_DIR}/io/*.cpp)
  foreach(folder cuda cudnn nccl)  # some of these are not compiled in every build
    list(FILTER sources EXCLUDE REGEX "/${folder}/")
  endforeach()
  foreach(source IN LISTS sources)
    file(STRINGS ${source} first REGEX "^#include" LIMIT_COUNT 1)
    if(first MATCHES "\"(.*)\"")
      list(REMOVE_ITEM headers ${CMAKE_MATCH_1} src/${CMAKE_MATCH_1})
    endif()
  endforeach()
  set(alone)
  foreach(header IN LISTS headers)
    string(REPLACE "/" "." name ${header})
    set(file ${CMAKE_CURRENT_BINARY_DIR}/headers/${name}.cpp)
    file(CONFIGURE OUTPUT ${file} CONTENT "#include \"${header}\"  // alone\n")
    list(APPEND alone ${file})
  endforeach()
  add_library(style_headers OBJECT ${alone})
  target_link_libraries(style_headers PRIVATE trireme_options trireme_module_options
    Kokkos::kokkos MPI::MPI_C HDF5::HDF5 tomlplusplus::tomlplusplus DNNL::dnnl nlohmann_json::nlohmann_json
    xxhash::xxhash)
  if(TRIREME_CUDA STREQUAL "EMULATED")
    target_link_libraries(style_headers PRIVATE trireme_cuda_emulation)
  endif()
  target_compile_options(style_headers PRIVATE -O0)
  add_dependencies(gpu_tests style_headers)  # those of CUDA are among them
endif()

# What hardening leaves in the program. The sanitizers take its place.
if(TRIREME_HARDENING AND NOT TRIREME_SANITIZE AND TARGET trireme)
  trireme_add_test(style.hardened COMMAND
                   bash ${CMAKE_CURRENT_SOURCE_DIR}/hardened.sh $<TARGET_FILE:trireme>)
endif()

# Documents lead somewhere, and containers install what cmake/setup.sh does.
trireme_add_test(style.documents COMMAND
                 bash ${CMAKE_CURRENT_SOURCE_DIR}/document_links.sh ${PROJECT_SOURCE_DIR})
trireme_add_test(style.containers COMMAND
                 bash ${CMAKE_CURRENT_SOURCE_DIR}/containers.sh ${PROJECT_SOURCE_DIR})
