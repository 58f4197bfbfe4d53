# Attention on the GPU.
# SPDX-License-Identifier: Apache-2.0
trireme_gpu_test(attention_test)
