# TRIREME_FETCH_DEPENDENCIES=ON: Kokkos and TOML++ are downloaded where they are not found.
# SPDX-License-Identifier: Apache-2.0
# They come at these tags, and are built with the project.
include(FetchContent)

set(Kokkos_ENABLE_OPENMP ON CACHE BOOL "Kokkos: OpenMP host space")
set(Kokkos_ENABLE_SERIAL ON CACHE BOOL "Kokkos: serial host space")
FetchContent_Declare(Kokkos GIT_REPOSITORY https://github.com/kokkos/kokkos.git
                     GIT_TAG 4.6.01 GIT_SHALLOW ON FIND_PACKAGE_ARGS)
FetchContent_Declare(tomlplusplus
                     GIT_REPOSITORY https://github.com/marzer/tomlplusplus.git
                     GIT_TAG v3.4.0 GIT_SHALLOW ON FIND_PACKAGE_ARGS)
FetchContent_MakeAvailable(Kokkos tomlplusplus)
