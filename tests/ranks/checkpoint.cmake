# Tests of checkpoints on several ranks, with damage, faults and hostile files.
# SPDX-License-Identifier: Apache-2.0
set(_faults ${CMAKE_CURRENT_LIST_DIR}/../support/io_faults.c)
trireme_test(checkpoint_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/checkpoint_test.cpp USES io
  RANKS 1 2 LONG_RANKS 3 4)
trireme_test(checkpoint_damage_test USES io
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/checkpoint_damage_test.cpp)
trireme_test(checkpoint_views_test USES io LIBRARIES HDF5::HDF5 MPI::MPI_C
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/checkpoint_views_test.cpp)
trireme_test(checkpoint_kill_test USES io LIBRARIES ${CMAKE_DL_LIBS}
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/checkpoint_kill_test.cpp ${_faults})
trireme_test(checkpoint_error_test USES io LIBRARIES ${CMAKE_DL_LIBS} RANKS 2 LONG_RANKS 1
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/checkpoint_error_test.cpp ${_faults})
trireme_test(checkpoint_writer_test USES io LIBRARIES ${CMAKE_DL_LIBS} RANKS 1 3
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/checkpoint_writer_test.cpp ${_faults})

# Every pair of meshes: the script starts the program once a mesh to save, once to load.
add_executable(checkpoint_mesh_test checkpoint_mesh_test.cpp)
target_link_libraries(checkpoint_mesh_test PRIVATE trireme_mesh_run trireme_train
                      trireme_test_options)
target_compile_definitions(checkpoint_mesh_test PRIVATE
  CHECKPOINT_MESHES="${CMAKE_CURRENT_SOURCE_DIR}/checkpoint_meshes.txt")
trireme_long_programs(checkpoint_mesh_test)
trireme_add_test(checkpoint_meshes RANKS 8 LONG
  COMMAND ${CMAKE_CURRENT_LIST_DIR}/checkpoint_meshes.sh
          $<TARGET_FILE:checkpoint_mesh_test> ${MPIEXEC_EXECUTABLE}
          ${CMAKE_CURRENT_LIST_DIR}/checkpoint_meshes.txt)
trireme_test(checkpoint_hostile_test USES io LIBRARIES ${CMAKE_DL_LIBS}
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/checkpoint_hostile_test.cpp ${_faults})
