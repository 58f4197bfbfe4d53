# Data ranks with unequally many microbatches.
# SPDX-License-Identifier: Apache-2.0
trireme_test(uneven_batch_test SOURCES uneven_batch_test.cpp USES engine RANKS 2 3
             LONG_RANKS 4 6 8 LIBRARIES trireme_mesh_run)
target_compile_definitions(uneven_batch_test PRIVATE
  MESH_TABLE="${CMAKE_CURRENT_SOURCE_DIR}/uneven_meshes.txt")
