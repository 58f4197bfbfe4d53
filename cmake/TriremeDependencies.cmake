# Finds every third-party library.
# SPDX-License-Identifier: Apache-2.0
# Nothing is downloaded unless TRIREME_FETCH_DEPENDENCIES is on. A library in an unusual place is
# given by -D<Name>_ROOT=<prefix> (Kokkos_ROOT, DNNL_ROOT, ...).

find_package(Threads REQUIRED)
find_package(MPI REQUIRED COMPONENTS C)
set(HDF5_PREFER_PARALLEL ON)
find_package(HDF5 REQUIRED COMPONENTS C)
find_package(ZLIB REQUIRED)
if(NOT TRIREME_FUZZ)  # which does not compute
  find_package(OpenMP REQUIRED COMPONENTS CXX)
  find_package(BLAS REQUIRED)
endif()
if(TRIREME_FETCH_DEPENDENCIES)
  include(TriremeFetch)
endif()

# trireme_need(PACKAGE TARGET): found, unless it was downloaded.
macro(trireme_need package target)
  if(NOT TARGET ${target})
    find_package(${package} REQUIRED)
  endif()
endmacro()
trireme_need(nlohmann_json nlohmann_json::nlohmann_json)
trireme_need(tomlplusplus tomlplusplus::tomlplusplus)
trireme_need(PCRE2 PCRE2::8BIT)  # patterns of tokenizers
trireme_need(Zstd zstd::zstd)
find_package(Editline)  # keys of `trireme chat` on a terminal
find_path(XXHASH_INCLUDE_DIR xxhash.h REQUIRED)
add_library(xxhash::xxhash INTERFACE IMPORTED)  # used as a header: XXH_INLINE_ALL
target_include_directories(xxhash::xxhash INTERFACE ${XXHASH_INCLUDE_DIR})
if(NOT TRIREME_FUZZ)
  trireme_need(DNNL DNNL::dnnl)
  trireme_need(Kokkos Kokkos::kokkos)  # 3.4 to 5
endif()
if(TRIREME_FUZZ)
  return()
endif()

# Debian's Kokkos names an include folder that does not exist: point it at the real one.
get_target_property(_kokkos_includes Kokkos::kokkos INTERFACE_INCLUDE_DIRECTORIES)
foreach(_dir IN LISTS _kokkos_includes)
  if(NOT EXISTS "${_dir}" AND NOT _dir MATCHES "^\\$<")
    find_path(TRIREME_KOKKOS_INCLUDE Kokkos_Core.hpp PATH_SUFFIXES trilinos REQUIRED)
    set_target_properties(Kokkos::kokkos PROPERTIES INTERFACE_INCLUDE_DIRECTORIES
                          "${TRIREME_KOKKOS_INCLUDE}")
  endif()
endforeach()

if(TRIREME_CUDA STREQUAL "EMULATED")
  foreach(module base kernels comm)
    set(TRIREME_CUDA_LIBRARIES_${module} trireme_cuda_emulation)
  endforeach()
  # comm/nccl is compiled against the real header, and runs on an emulation of the library.
  find_path(NCCL_INCLUDE_DIR nccl.h HINTS ENV CUDA_HOME PATHS /usr/local/cuda/include)
  set(TRIREME_NCCL_EMULATED OFF)
  if(TRIREME_NCCL AND NCCL_INCLUDE_DIR)
    set(TRIREME_NCCL_EMULATED ON)
    list(APPEND TRIREME_CUDA_LIBRARIES_comm trireme_nccl_emulation)
  else()
    message(STATUS "nccl.h: not found; NCCL is not emulated, and its tests are left out")
  endif()
elseif(TRIREME_CUDA)
  include(TriremeCuda)
endif()
