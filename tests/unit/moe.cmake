# Mixtures of experts: the router, the rows sorted by expert, the whole layer.
# SPDX-License-Identifier: Apache-2.0
trireme_test(moe_kernels_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/moe_kernels_test.cpp
             USES kernels)
trireme_test(moe_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/moe_test.cpp USES nn comm)
trireme_test(moe_model_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/moe_model_test.cpp
             USES train)
