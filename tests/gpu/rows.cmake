# Row-wise and elementwise kernels.
# SPDX-License-Identifier: Apache-2.0
foreach(family norm rope activation elementwise embedding random)
  trireme_gpu_test(${family}_test)
endforeach()
