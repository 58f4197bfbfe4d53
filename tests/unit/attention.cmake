# Attention: values, gradients, cache, memory.
# SPDX-License-Identifier: Apache-2.0
trireme_test(attention_test
  SOURCES unit/attention_test.cpp unit/attention_gradient_test.cpp
  USES kernels)
