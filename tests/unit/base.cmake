# src/base.
# SPDX-License-Identifier: Apache-2.0
trireme_test(base_test SOURCES base_numbers_test.cpp base_memory_test.cpp base_text_test.cpp
             base_tensor_test.cpp outside_text_test.cpp USES base)
trireme_test(directory_test SOURCES directory_test.cpp USES base)
