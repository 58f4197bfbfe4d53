# FP8 recipes on meshes.
# SPDX-License-Identifier: Apache-2.0
trireme_test(fp8_test SOURCES fp8_test.cpp
             USES train RANKS 2 LONG_RANKS 4 LIBRARIES trireme_mesh_run)
trireme_test(fp8_values_test
             SOURCES fp8_values_test.cpp
             USES train RANKS 2 ASIDE LIBRARIES trireme_mesh_run)
trireme_test(weight_codes_test SOURCES weight_codes_test.cpp
             USES plan train RANKS 2 ASIDE LIBRARIES trireme_mesh_run)
