# Collectives of tensors on a GPU, which the ranks share.
# SPDX-License-Identifier: Apache-2.0
foreach(topic comm device_comm mesh)
  trireme_gpu_test(${topic}_test RANKS 1 2 3 4)
endforeach()

# The emulated device runs work as late as it may, or here as soon as it is queued.
if(TRIREME_CUDA STREQUAL "EMULATED")
  foreach(topic comm device_comm)
    set(test gpu.${topic}_test.eager.3)
    trireme_add_test(${test} RANKS 3 LABELS gpu
      COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} 3 ${MPIEXEC_PREFLAGS}
              $<TARGET_FILE:${topic}_test> ${MPIEXEC_POSTFLAGS})
    set_property(TEST ${test} APPEND PROPERTY ENVIRONMENT TRIREME_TEST_DEVICE=cuda
                 TRIREME_EMULATION_STREAMS=eager)
  endforeach()

  trireme_add_test(gpu.comm_faults RANKS 3 WAITS LABELS gpu
                   COMMAND ${CMAKE_CURRENT_LIST_DIR}/../ranks/comm_faults.sh
                           $<TARGET_FILE:comm_faults> ${MPIEXEC_EXECUTABLE})
  add_dependencies(gpu_tests comm_faults)
  set_property(TEST gpu.comm_faults APPEND PROPERTY ENVIRONMENT TRIREME_TEST_DEVICE=cuda)
endif()
