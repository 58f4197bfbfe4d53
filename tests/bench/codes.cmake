# Products that read codes beside the memory's rate, and the same of whole models (codes.sh).
# SPDX-License-Identifier: Apache-2.0
add_executable(codes_bench ${CMAKE_CURRENT_LIST_DIR}/codes_bench.cpp)
target_include_directories(codes_bench PRIVATE ${PROJECT_SOURCE_DIR}/tests)
target_link_libraries(codes_bench PRIVATE trireme_kernels)
trireme_long_programs(codes_bench)
trireme_add_test(codes_bench LONG COMMAND codes_bench --quick)
