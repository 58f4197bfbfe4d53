# Times of kernels. As tests they run on tiny tensors, to see that they run.
# SPDX-License-Identifier: Apache-2.0
add_executable(kernel_bench ${CMAKE_CURRENT_LIST_DIR}/bench.cpp
               ${CMAKE_CURRENT_LIST_DIR}/code_kernels.cpp
               ${CMAKE_CURRENT_LIST_DIR}/fp8_kernels.cpp
               ${CMAKE_CURRENT_LIST_DIR}/kernel_bench.cpp)
target_include_directories(kernel_bench PRIVATE ${PROJECT_SOURCE_DIR}/tests)
target_link_libraries(kernel_bench PRIVATE trireme_kernels)
trireme_long_programs(kernel_bench)
trireme_add_test(kernel_bench LONG COMMAND kernel_bench --quick)
if(TRIREME_CUDA)
  trireme_add_test(gpu.kernel_bench COMMAND kernel_bench --quick --device cuda
                   LABELS gpu)
  add_dependencies(gpu_tests kernel_bench)
  add_dependencies(gpu_programs kernel_bench)
endif()
