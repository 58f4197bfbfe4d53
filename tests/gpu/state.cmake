# Kernels around the weights' update and the loss, and those of experts.
# SPDX-License-Identifier: Apache-2.0
foreach(family cross_entropy optimizer step_decision moe_kernels arrivals rounding fp8_blocks
               block_codes)
  trireme_gpu_test(${family}_test)
endforeach()
