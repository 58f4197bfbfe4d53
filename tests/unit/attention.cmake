# Attention: values, gradients, parts, documents, cache, memory.
# SPDX-License-Identifier: Apache-2.0
set_source_files_properties(attention_half_test.cpp PROPERTIES COMPILE_DEFINITIONS
  $<TARGET_PROPERTY:trireme_module_options,INTERFACE_COMPILE_DEFINITIONS>)
trireme_test(attention_test
  SOURCES attention_test.cpp attention_gradient_test.cpp attention_part_test.cpp
          attention_documents_test.cpp attention_half_test.cpp
  USES kernels)
