# Row-wise and elementwise kernels.
# SPDX-License-Identifier: Apache-2.0
foreach(family norm rope activation elementwise elementwise_math elementwise_threads
               embedding embedding_order cross_entropy)
  trireme_test(${family}_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/${family}_test.cpp
               USES kernels)
endforeach()
