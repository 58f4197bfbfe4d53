# Finds Zstandard: Zstd_FOUND, Zstd_VERSION, target zstd::zstd.
# SPDX-License-Identifier: Apache-2.0
include(FindPackageHandleStandardArgs)

find_path(ZSTD_INCLUDE_DIR zstd.h)
find_library(ZSTD_LIBRARY zstd)
if(ZSTD_INCLUDE_DIR)
  file(STRINGS ${ZSTD_INCLUDE_DIR}/zstd.h _lines
       REGEX "define ZSTD_VERSION_(MAJOR|MINOR|RELEASE) +[0-9]+")
  list(TRANSFORM _lines REPLACE "^.* " "")
  list(JOIN _lines "." Zstd_VERSION)
endif()
find_package_handle_standard_args(Zstd REQUIRED_VARS ZSTD_LIBRARY ZSTD_INCLUDE_DIR
                                  VERSION_VAR Zstd_VERSION)
if(Zstd_FOUND AND NOT TARGET zstd::zstd)
  add_library(zstd::zstd UNKNOWN IMPORTED)
  set_target_properties(zstd::zstd PROPERTIES IMPORTED_LOCATION ${ZSTD_LIBRARY}
                        INTERFACE_INCLUDE_DIRECTORIES ${ZSTD_INCLUDE_DIR})
endif()
