# Attention: values, gradients, parts, documents, cache, memory.
# SPDX-License-Identifier: Apache-2.0
trireme_test(attention_test
  SOURCES attention_test.cpp attention_gradient_test.cpp attention_part_test.cpp
          attention_documents_test.cpp attention_half_test.cpp
  USES kernels)
