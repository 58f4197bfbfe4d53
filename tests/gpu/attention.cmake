# Attention on the GPU.
# SPDX-License-Identifier: Apache-2.0
trireme_gpu_test(attention_test)
trireme_gpu_test(paged_attention_test)
if(TRIREME_CUDA)
  trireme_test(attention_cudnn_test
    SOURCES ${CMAKE_CURRENT_LIST_DIR}/attention_cudnn_test.cpp USES kernels)
  trireme_gpu_test(attention_cudnn_test)
endif()
