# Bits that must be equal, and memory that must be as planned.
# SPDX-License-Identifier: Apache-2.0
foreach(topic equality equality_schedule)
  trireme_test(${topic}_test SOURCES ${topic}_test.cpp USES train RANKS 2
               LONG_RANKS 3 4 LIBRARIES trireme_mesh_run)
endforeach()
trireme_test(equality_recompute_test SOURCES equality_recompute_test.cpp USES plan train RANKS 2
             LONG_RANKS 3 4 ASIDE LIBRARIES trireme_mesh_run)
trireme_test(recipes_test SOURCES recipes_test.cpp USES train RANKS 2 ASIDE LONG_RANKS 3 4
             LIBRARIES trireme_mesh_run)
trireme_test(dynamic_moments_ranks_test SOURCES dynamic_moments_test.cpp USES train RANKS 2
             ASIDE LONG_RANKS 3 4 LIBRARIES trireme_mesh_run)
trireme_test(half_meshes_test SOURCES half_meshes_test.cpp USES train RANKS 2 ASIDE
             LIBRARIES trireme_mesh_run)
trireme_test(recipe_traffic_test SOURCES recipe_traffic_test.cpp USES train RANKS 2 ASIDE
             LIBRARIES trireme_mesh_run)
trireme_test(stored_values_test SOURCES stored_values_test.cpp USES optim RANKS 2 ASIDE)
trireme_test(late_weights_test SOURCES late_weights_test.cpp USES optim RANKS 2 ASIDE)
trireme_test(outer_step_test SOURCES outer_step_test.cpp USES train RANKS 2 4
             LIBRARIES trireme_mesh_run)
trireme_test(replica_sums_test SOURCES replica_sums_test.cpp USES train RANKS 2 4 ASIDE)
trireme_test(error_feedback_test SOURCES error_feedback_test.cpp USES train RANKS 2 ASIDE LONG_RANKS 3
             LIBRARIES trireme_mesh_run)
trireme_test(memory_test SOURCES memory_test.cpp USES plan train RANKS 2 LONG_RANKS 3 4
             LIBRARIES trireme_mesh_run)
foreach(topic equality_schedule memory)
  target_compile_definitions(${topic}_test PRIVATE
    MESH_TABLE="${CMAKE_CURRENT_SOURCE_DIR}/meshes.txt")
endforeach()
trireme_test(optimizers_test SOURCES optimizers_test.cpp USES train RANKS 2 LONG_RANKS 3 4
             LIBRARIES trireme_mesh_run)
