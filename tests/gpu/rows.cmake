# Row-wise and elementwise kernels.
# SPDX-License-Identifier: Apache-2.0
trireme_gpu_test(elementwise_test)
