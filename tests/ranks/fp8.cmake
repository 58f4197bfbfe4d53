# FP8 recipes on meshes.
# SPDX-License-Identifier: Apache-2.0
trireme_test(fp8_test SOURCES fp8_test.cpp ${CMAKE_CURRENT_SOURCE_DIR}/../support/mesh_run.cpp
             USES train RANKS 2 4)
trireme_test(fp8_values_test
             SOURCES fp8_values_test.cpp ${CMAKE_CURRENT_SOURCE_DIR}/../support/mesh_run.cpp
             USES train RANKS 2)
