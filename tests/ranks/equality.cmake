# Bits that must be equal, and memory that must be as planned.
# SPDX-License-Identifier: Apache-2.0
set(_mesh_run ${CMAKE_CURRENT_SOURCE_DIR}/../support/mesh_run.cpp)
foreach(topic equality equality_schedule equality_recompute)
  trireme_test(${topic}_test SOURCES ${topic}_test.cpp ${_mesh_run} USES train RANKS 2 3 4)
endforeach()
trireme_test(recipes_test SOURCES recipes_test.cpp ${_mesh_run} USES train RANKS 2 3 4)
trireme_test(half_meshes_test SOURCES half_meshes_test.cpp ${_mesh_run} USES train RANKS 2)
trireme_test(recipe_traffic_test SOURCES recipe_traffic_test.cpp ${_mesh_run} USES train RANKS 2)
trireme_test(stored_values_test SOURCES stored_values_test.cpp USES optim RANKS 2)
trireme_test(error_feedback_test SOURCES error_feedback_test.cpp ${_mesh_run} USES train RANKS 2 3)
trireme_test(memory_test SOURCES memory_test.cpp ${_mesh_run} USES plan train RANKS 2 3 4)
foreach(topic equality_schedule memory)
  target_compile_definitions(${topic}_test PRIVATE
    MESH_TABLE="${CMAKE_CURRENT_SOURCE_DIR}/meshes.txt")
endforeach()
