# What only a GPU answers: a communicator of NCCL with one rank, and the pack that is carried there.
# SPDX-License-Identifier: Apache-2.0
if((TRIREME_CUDA STREQUAL "EMULATED" AND TRIREME_NCCL_EMULATED) OR
   (TRIREME_CUDA AND NOT TRIREME_CUDA STREQUAL "EMULATED" AND TRIREME_NCCL))
  add_executable(nccl_bench ${CMAKE_CURRENT_LIST_DIR}/nccl_bench.cpp)
  target_link_libraries(nccl_bench PRIVATE trireme_base trireme_test_options
                        ${TRIREME_CUDA_LIBRARIES_base} ${TRIREME_CUDA_LIBRARIES_comm})
  trireme_add_test(gpu.nccl_bench COMMAND nccl_bench LABELS gpu)
  add_dependencies(gpu_tests nccl_bench)
  add_dependencies(gpu_programs nccl_bench)
endif()

if(TRIREME_CUDA STREQUAL "EMULATED")
  trireme_add_test(gpu.pack RANKS 2 LABELS gpu
                   COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/gpu_pack.sh ${PROJECT_BINARY_DIR})
endif()
