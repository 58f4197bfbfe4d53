# The planner's time model against measured runs of another program, and its tests.
# SPDX-License-Identifier: Apache-2.0
file(GLOB playbook_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/playbook/*.cpp)
list(FILTER playbook_sources EXCLUDE REGEX "(main|_test)\\.cpp$")
add_library(playbook STATIC ${playbook_sources})
target_include_directories(playbook PUBLIC ${PROJECT_SOURCE_DIR}/tests)
target_link_libraries(playbook PUBLIC trireme_base)
add_executable(playbook_check ${CMAKE_CURRENT_LIST_DIR}/playbook/main.cpp)
target_link_libraries(playbook_check PRIVATE playbook)
add_dependencies(long_tests playbook_check)
trireme_test(playbook_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/playbook/playbook_test.cpp
             USES base LIBRARIES playbook)
