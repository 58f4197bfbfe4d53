# NCCL on the emulated device, and what only the emulated device can be told to do.
# SPDX-License-Identifier: Apache-2.0
if(TRIREME_CUDA STREQUAL "EMULATED")
  foreach(topic attention_limits host_pages)
    add_executable(${topic}_test ${topic}_test.cpp)
    target_link_libraries(${topic}_test PRIVATE trireme_test_main trireme_cuda_emulation
                          trireme_test_options)
    trireme_gpu_test(${topic}_test)
  endforeach()
endif()

if(TRIREME_NCCL_EMULATED)
  foreach(topic nccl lazy_loading offloaded_weights)
    add_executable(${topic}_test ${topic}_test.cpp)
    target_link_libraries(${topic}_test PRIVATE trireme_mesh_run trireme_cuda_emulation
                          trireme_nccl_emulation trireme_test_options)
    target_compile_definitions(${topic}_test PRIVATE
      MESH_TABLE="${PROJECT_SOURCE_DIR}/tests/ranks/meshes.txt")
  endforeach()
  trireme_gpu_test(nccl_test RANKS 2 4)
  trireme_gpu_test(lazy_loading_test RANKS 2 4)
  trireme_gpu_test(offloaded_weights_test RANKS 2)
  # Every line of the table of meshes.
  foreach(ranks 2 3 4 6 8)
    trireme_add_test(gpu.nccl_test.all.${ranks} RANKS ${ranks} LONG TIMEOUT 1800 LABELS gpu
      COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks} ${MPIEXEC_PREFLAGS}
              $<TARGET_FILE:nccl_test> --gtest_filter=*TrainAsWithMpi
              ${MPIEXEC_POSTFLAGS})
    set_property(TEST gpu.nccl_test.all.${ranks} APPEND PROPERTY ENVIRONMENT
                 TRIREME_TEST_DEVICE=cuda TRIREME_TEST_ALL=1 TRIREME_EMULATION_DEVICES=8)
  endforeach()
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
  trireme_add_test(gpu.batch_test.nccl.2 RANKS 2 LABELS gpu
    COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} 2 ${MPIEXEC_PREFLAGS}
            $<TARGET_FILE:batch_test> --gtest_filter=Batch.Llama:Batch.HalvesOfWideHeads
            ${MPIEXEC_POSTFLAGS})
  set_property(TEST gpu.batch_test.nccl.2 APPEND PROPERTY ENVIRONMENT
               TRIREME_TEST_DEVICE=cuda TRIREME_TEST_TRANSPORT=nccl)
  add_executable(decision_test decision_test.cpp)
  target_link_libraries(decision_test PRIVATE trireme_mesh_run trireme_cuda_emulation
                        trireme_nccl_emulation trireme_io trireme_test_options)
  trireme_gpu_test(decision_test RANKS 1 2 4)
  # Mistakes on purpose, and instances of one card.
  add_executable(stream_faults_test stream_faults_test.cpp)
  target_link_libraries(stream_faults_test PRIVATE trireme_mesh_run trireme_engine
                        trireme_cuda_emulation trireme_test_options)
  add_executable(instances_test instances_test.cpp)
  target_link_libraries(instances_test PRIVATE trireme_mesh_run trireme_launch
                        trireme_test_options)
  foreach(topic stream_faults instances)
    trireme_gpu_test(${topic}_test RANKS 2)
    set_property(TEST gpu.${topic}_test.2 APPEND PROPERTY ENVIRONMENT
                 TRIREME_EMULATION_DEVICES=2)
  endforeach()
  set_property(TEST gpu.instances_test.2 APPEND PROPERTY ENVIRONMENT
               TRIREME_EMULATION_INSTANCES=2)
  add_executable(nccl_faults nccl_faults.cpp)
  target_link_libraries(nccl_faults PRIVATE trireme_comm trireme_kernels trireme_base
                        trireme_cuda_emulation trireme_nccl_emulation
                        trireme_test_options MPI::MPI_C)
  trireme_add_test(gpu.nccl_faults RANKS 4 WAITS LABELS gpu
                   COMMAND ${CMAKE_CURRENT_LIST_DIR}/nccl_faults.sh
                           $<TARGET_FILE:nccl_faults> ${MPIEXEC_EXECUTABLE})
  add_dependencies(gpu_tests nccl_faults)
endif()
