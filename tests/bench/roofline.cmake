# What the compiler made of the kernels: a program that reads cubins, and its tests.
# SPDX-License-Identifier: Apache-2.0
file(GLOB roofline_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/roofline/*.cpp)
add_executable(roofline ${roofline_sources})
target_include_directories(roofline PRIVATE ${PROJECT_SOURCE_DIR}/tests)
target_link_libraries(roofline PRIVATE trireme_base)
trireme_long_programs(roofline)
trireme_add_test(roofline LONG COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/roofline/test.sh
                 $<TARGET_FILE:roofline> ${PROJECT_SOURCE_DIR})
