# NCCL on the emulated device, and what only the emulated device can be told to do.
# SPDX-License-Identifier: Apache-2.0
if(TRIREME_CUDA STREQUAL "EMULATED")
  add_executable(attention_limits_test attention_limits_test.cpp)
  target_link_libraries(attention_limits_test PRIVATE trireme_test_main trireme_cuda_emulation
                        trireme_test_options)
  trireme_gpu_test(attention_limits_test)
endif()

if(TRIREME_NCCL_EMULATED)
  add_executable(nccl_test nccl_test.cpp)
  target_link_libraries(nccl_test PRIVATE trireme_mesh_run trireme_cuda_emulation
                        trireme_nccl_emulation trireme_test_options)
  target_compile_definitions(nccl_test PRIVATE
    MESH_TABLE="${PROJECT_SOURCE_DIR}/tests/ranks/meshes.txt")
  trireme_gpu_test(nccl_test RANKS 2 4)
  foreach(ranks 2 4)
    set_property(TEST gpu.nccl_test.${ranks} APPEND PROPERTY ENVIRONMENT
                 TRIREME_EMULATION_DEVICES=4)
    set(test gpu.device_comm_test.nccl.${ranks})
    trireme_add_test(${test} RANKS ${ranks} LABELS gpu
      COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks} ${MPIEXEC_PREFLAGS}
              $<TARGET_FILE:device_comm_test> ${MPIEXEC_POSTFLAGS})
    set_property(TEST ${test} APPEND PROPERTY ENVIRONMENT TRIREME_TEST_DEVICE=cuda
                 TRIREME_TEST_TRANSPORT=nccl)
  endforeach()
  add_executable(nccl_faults nccl_faults.cpp)
  target_link_libraries(nccl_faults PRIVATE trireme_comm trireme_base trireme_test_options)
  trireme_add_test(gpu.nccl_faults RANKS 4 WAITS LABELS gpu
                   COMMAND ${CMAKE_CURRENT_LIST_DIR}/nccl_faults.sh
                           $<TARGET_FILE:nccl_faults> ${MPIEXEC_EXECUTABLE})
  add_dependencies(gpu_tests nccl_faults)
endif()
