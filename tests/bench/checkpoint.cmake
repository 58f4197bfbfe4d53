# The cost of checkpoints. As a test it runs on a small one, to see that it runs.
# SPDX-License-Identifier: Apache-2.0
add_executable(checkpoint_bench ${CMAKE_CURRENT_LIST_DIR}/checkpoint_bench.cpp)
target_link_libraries(checkpoint_bench PRIVATE trireme_io trireme_comm trireme_base)
trireme_long_programs(checkpoint_bench)
trireme_add_test(checkpoint_bench LONG COMMAND checkpoint_bench --mib 4 --saves 2)

add_executable(index_bench index_bench.cpp)
target_include_directories(index_bench PRIVATE ${PROJECT_SOURCE_DIR}/tests)
target_link_libraries(index_bench PRIVATE trireme_io trireme_test_options)
trireme_long_programs(index_bench)
# Few ranks, and their views in the build folder, to see that it runs.
trireme_add_test(index_bench LONG COMMAND index_bench 16 .)
