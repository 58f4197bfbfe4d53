# Adapters of a frozen model.
# SPDX-License-Identifier: Apache-2.0
trireme_test(adapter_mesh_test SOURCES adapter_mesh_test.cpp USES train RANKS 2
             LONG_RANKS 3 4 LIBRARIES trireme_mesh_run)
target_compile_definitions(adapter_mesh_test PRIVATE
  MESH_TABLE="${CMAKE_CURRENT_SOURCE_DIR}/adapter_meshes.txt")
