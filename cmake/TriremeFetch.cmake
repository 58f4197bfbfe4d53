# TRIREME_FETCH_DEPENDENCIES=ON: libraries that are not found are downloaded.
# SPDX-License-Identifier: Apache-2.0
# They come at these tags, are built with the project, and are linked into the program. What a
# cluster has of its own is never downloaded: the compiler with OpenMP, MPI, HDF5, BLAS, zlib.
# FETCHCONTENT_SOURCE_DIR_<NAME> takes a library from a folder instead, for machines without a
# network; FETCHCONTENT_TRY_FIND_PACKAGE_MODE=NEVER downloads even what is there.
include(FetchContent)

# Whether a library is to be downloaded: the package of this name is not found.
macro(trireme_lacks name result)
  set(${result} TRUE)
  if(NOT FETCHCONTENT_TRY_FIND_PACKAGE_MODE STREQUAL NEVER)
    find_package(${name} QUIET)
    if(${name}_FOUND)
      set(${result} FALSE)
    endif()
  endif()
endmacro()

# trireme_fetch(NAME REPOSITORY TAG [FOLDER]): its sources, and what the CMakeLists.txt in that
# folder of them makes. Nothing of it is installed with the program.
macro(trireme_fetch name repository tag)
  message(STATUS "${name}: downloaded at ${tag}")
  FetchContent_Declare(${name} GIT_REPOSITORY https://github.com/${repository}.git
                       GIT_TAG ${tag} GIT_SHALLOW ON)
  FetchContent_GetProperties(${name})
  string(TOLOWER ${name} _name)
  if(NOT ${_name}_POPULATED)
    if(POLICY CMP0169)
      cmake_policy(SET CMP0169 OLD)  # so that add_subdirectory() can leave its parts out
    endif()
    FetchContent_Populate(${name})
    if(EXISTS ${${_name}_SOURCE_DIR}/${ARGN}/CMakeLists.txt)
      add_subdirectory(${${_name}_SOURCE_DIR}/${ARGN} ${${_name}_BINARY_DIR} EXCLUDE_FROM_ALL)
    endif()
  endif()
endmacro()

trireme_lacks(nlohmann_json lacks)
if(lacks)
  set(JSON_BuildTests OFF CACHE INTERNAL "")
  trireme_fetch(nlohmann_json nlohmann/json v3.11.3)
  set(nlohmann_json_VERSION 3.11.3)
endif()

trireme_lacks(tomlplusplus lacks)
if(lacks)
  trireme_fetch(tomlplusplus marzer/tomlplusplus v3.4.0)
  set(tomlplusplus_VERSION 3.4.0)
endif()

find_path(XXHASH_INCLUDE_DIR xxhash.h)  # of which only the header is used
if(NOT XXHASH_INCLUDE_DIR OR FETCHCONTENT_TRY_FIND_PACKAGE_MODE STREQUAL NEVER)
  trireme_fetch(xxhash Cyan4973/xxHash v0.8.2 no-project)
  set(XXHASH_INCLUDE_DIR ${xxhash_SOURCE_DIR} CACHE PATH "Folder of xxhash.h" FORCE)
endif()

trireme_lacks(PCRE2 lacks)
if(lacks)
  set(PCRE2_SUPPORT_JIT ON CACHE INTERNAL "")
  foreach(part PCRE2_BUILD_PCRE2GREP PCRE2_BUILD_TESTS PCRE2_SUPPORT_LIBBZ2 PCRE2_SUPPORT_LIBZ)
    set(${part} OFF CACHE INTERNAL "")
  endforeach()
  trireme_fetch(pcre2 PCRE2Project/pcre2 pcre2-10.44)
  add_library(PCRE2::8BIT ALIAS pcre2-8-static)
endif()

trireme_lacks(Zstd lacks)
if(lacks)
  foreach(part ZSTD_BUILD_PROGRAMS ZSTD_BUILD_TESTS ZSTD_BUILD_SHARED ZSTD_LEGACY_SUPPORT)
    set(${part} OFF CACHE INTERNAL "")
  endforeach()
  trireme_fetch(zstd facebook/zstd v1.5.6 build/cmake)
  add_library(trireme_zstd INTERFACE)
  target_link_libraries(trireme_zstd INTERFACE libzstd_static)
  target_include_directories(trireme_zstd INTERFACE ${zstd_SOURCE_DIR}/lib)
  add_library(zstd::zstd ALIAS trireme_zstd)
endif()

if(TRIREME_FUZZ)  # which does not compute
  return()
endif()

trireme_lacks(Kokkos lacks)
if(lacks)
  set(Kokkos_ENABLE_OPENMP ON CACHE BOOL "Kokkos: OpenMP host space")
  set(Kokkos_ENABLE_SERIAL ON CACHE BOOL "Kokkos: serial host space")
  trireme_fetch(Kokkos kokkos/kokkos 4.6.01)
endif()

trireme_lacks(DNNL lacks)
if(lacks)
  set(DNNL_CPU_RUNTIME OMP CACHE STRING "oneDNN: threads")
  set(DNNL_LIBRARY_TYPE STATIC CACHE STRING "oneDNN: in the program")
  foreach(part DNNL_BUILD_TESTS DNNL_BUILD_EXAMPLES ONEDNN_BUILD_GRAPH)
    set(${part} OFF CACHE BOOL "oneDNN: left out")
  endforeach()
  trireme_fetch(dnnl uxlfoundation/oneDNN v3.7.1)
  if(NOT TARGET DNNL::dnnl)
    add_library(DNNL::dnnl ALIAS dnnl)
  endif()
endif()
