# Finds libedit, the line editor of NetBSD: Editline_FOUND, target Editline::Editline.
# SPDX-License-Identifier: Apache-2.0
include(FindPackageHandleStandardArgs)

find_path(EDITLINE_INCLUDE_DIR histedit.h)
find_library(EDITLINE_LIBRARY edit)
find_package_handle_standard_args(Editline REQUIRED_VARS EDITLINE_LIBRARY EDITLINE_INCLUDE_DIR)
if(Editline_FOUND AND NOT TARGET Editline::Editline)
  add_library(Editline::Editline UNKNOWN IMPORTED)
  set_target_properties(Editline::Editline PROPERTIES IMPORTED_LOCATION ${EDITLINE_LIBRARY}
                        INTERFACE_INCLUDE_DIRECTORIES ${EDITLINE_INCLUDE_DIR})
endif()
