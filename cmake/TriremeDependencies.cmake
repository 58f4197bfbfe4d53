# Finds every third-party library. Nothing is downloaded.
# SPDX-License-Identifier: Apache-2.0

find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(MPI REQUIRED COMPONENTS C)
set(HDF5_PREFER_PARALLEL ON)
find_package(HDF5 REQUIRED COMPONENTS C)
find_package(tomlplusplus REQUIRED)
find_package(dnnl REQUIRED)
find_package(BLAS REQUIRED)
find_path(XXHASH_INCLUDE_DIR xxhash.h REQUIRED)

# Debian's Kokkos names an include folder that does not exist: point it at the real one.
find_package(Kokkos REQUIRED)
find_path(TRIREME_KOKKOS_INCLUDE Kokkos_Core.hpp PATH_SUFFIXES trilinos REQUIRED)
get_target_property(_kokkos_includes Kokkos::kokkos INTERFACE_INCLUDE_DIRECTORIES)
foreach(_dir IN LISTS _kokkos_includes)
  if(NOT EXISTS "${_dir}" AND NOT _dir MATCHES "^\\$<")
    set_target_properties(Kokkos::kokkos PROPERTIES INTERFACE_INCLUDE_DIRECTORIES
                          "${TRIREME_KOKKOS_INCLUDE}")
  endif()
endforeach()
