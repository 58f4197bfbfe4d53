# The engine on a GPU.
# SPDX-License-Identifier: Apache-2.0
if(TRIREME_CUDA)
  add_executable(gpu_engine_test engine_test.cpp)
  target_link_libraries(gpu_engine_test PRIVATE trireme_mesh_run trireme_train
                        trireme_test_options)
  trireme_gpu_test(gpu_engine_test)
  add_executable(gpu_memory_test memory_test.cpp)
  target_link_libraries(gpu_memory_test PRIVATE trireme_mesh_run trireme_train trireme_plan
                        trireme_convert)
  trireme_gpu_test(gpu_memory_test RANKS 2)
  add_executable(gpu_graphs_test graphs_test.cpp)
  target_link_libraries(gpu_graphs_test PRIVATE trireme_mesh_run trireme_test_options)
  trireme_gpu_test(gpu_graphs_test RANKS 1 2)
  add_executable(gpu_environment_test environment_test.cpp)
  target_link_libraries(gpu_environment_test PRIVATE trireme_test_main trireme_base
                        trireme_test_options)
  trireme_gpu_test(gpu_environment_test)
  trireme_add_test(gpu.gpu_environment_test.kept LABELS gpu
                   COMMAND $<TARGET_FILE:gpu_environment_test>)
  set_property(TEST gpu.gpu_environment_test.kept APPEND PROPERTY ENVIRONMENT
               CUDA_DEVICE_MAX_CONNECTIONS=1 CUDA_MODULE_LOADING=LAZY)
  trireme_gpu_test(batch_test RANKS 1 2 TIMEOUT 900)
  trireme_gpu_test(generator_test)  # weights that come to the GPU as they are used
  trireme_gpu_test(adapter_mesh_test RANKS 2 TIMEOUT 900)  # beside codes
  trireme_gpu_test(mesh_table_test RANKS 2 4 TIMEOUT 900)
  # Four minutes there; nccl_test, graphs and adapters have meshes of two ranks, too.
  if(TRIREME_CUDA STREQUAL "EMULATED")
    set_property(TEST gpu.mesh_table_test.2 APPEND PROPERTY LABELS long)
  endif()
  trireme_gpu_test(outer_step_test RANKS 2)
  if(TRIREME_CUDA STREQUAL "EMULATED")  # which has scales of blocks, as 9.0 alone does
    trireme_gpu_test(fp8_test RANKS 2)
  else()  # these take ten minutes there
    foreach(topic equality equality_schedule equality_recompute)
      trireme_gpu_test(${topic}_test RANKS 2 TIMEOUT 900)
    endforeach()
  endif()
endif()
