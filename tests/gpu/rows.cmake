# Row-wise and elementwise kernels.
# SPDX-License-Identifier: Apache-2.0
foreach(family norm split_norm attention_sinks causal_conv delta_rule rope activation dropout elementwise embedding embedding_order random)
  trireme_gpu_test(${family}_test)
endforeach()
if(TRIREME_CUDA)
  trireme_test(workspace_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/workspace_test.cpp USES kernels)
endif()
