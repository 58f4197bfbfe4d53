# Finds PCRE2 for 8-bit text: PCRE2_FOUND, PCRE2_VERSION, target PCRE2::8BIT.
# SPDX-License-Identifier: Apache-2.0
include(FindPackageHandleStandardArgs)

find_path(PCRE2_INCLUDE_DIR pcre2.h)
find_library(PCRE2_LIBRARY pcre2-8)
if(PCRE2_INCLUDE_DIR)
  file(STRINGS ${PCRE2_INCLUDE_DIR}/pcre2.h _lines REGEX "define PCRE2_(MAJOR|MINOR) +[0-9]+")
  list(TRANSFORM _lines REPLACE "^.* " "")
  list(JOIN _lines "." PCRE2_VERSION)
endif()
find_package_handle_standard_args(PCRE2 REQUIRED_VARS PCRE2_LIBRARY PCRE2_INCLUDE_DIR
                                  VERSION_VAR PCRE2_VERSION)
if(PCRE2_FOUND AND NOT TARGET PCRE2::8BIT)
  add_library(PCRE2::8BIT UNKNOWN IMPORTED)
  set_target_properties(PCRE2::8BIT PROPERTIES IMPORTED_LOCATION ${PCRE2_LIBRARY}
                        INTERFACE_INCLUDE_DIRECTORIES ${PCRE2_INCLUDE_DIR})
endif()
