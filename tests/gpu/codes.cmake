# Codes, and batches of prompts, on the emulated GPU, by the whole program.
# SPDX-License-Identifier: Apache-2.0
if(TRIREME_CUDA STREQUAL "EMULATED")
  add_dependencies(gpu_tests h5_compare)
  foreach(topic codes batches)
    trireme_add_test(gpu.${topic} WAITS TIMEOUT 900 LABELS gpu
                     COMMAND bash ${PROJECT_SOURCE_DIR}/tests/regression/gpu_${topic}.sh)
  endforeach()
endif()
