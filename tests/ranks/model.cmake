# Tests of models, sharding and pipelines on several ranks.
# SPDX-License-Identifier: Apache-2.0
trireme_test(edges_test SOURCES edges_test.cpp USES parallel RANKS 1 2
             LONG_RANKS 3 4)
trireme_test(attention_module_test SOURCES attention_module_test.cpp USES nn comm
             RANKS 1 3 LONG_RANKS 2 4)
trireme_test(delta_module_test SOURCES delta_module_test.cpp USES nn comm
             RANKS 1 3 LONG_RANKS 2 4)
trireme_test(parity_test SOURCES parity_test.cpp USES train RANKS 1 2 4
             LONG_RANKS 3 6 8 LIBRARIES trireme_mesh_run)
# The table of meshes holds lines for each of these rank counts.
trireme_test(mesh_table_test SOURCES mesh_table_test.cpp USES train
             LONG_RANKS 2 3 4 6 8 12 16 TIMEOUT 900 LIBRARIES trireme_mesh_run)
target_compile_definitions(mesh_table_test PRIVATE
  MESH_TABLE="${CMAKE_CURRENT_SOURCE_DIR}/meshes.txt")
trireme_test(generator_test SOURCES generator_test.cpp USES infer train RANKS 1 4
             LONG_RANKS 2)
trireme_test(batch_test SOURCES batch_test.cpp USES infer train RANKS 1 4
             LONG_RANKS 2)
