# Tests of comm.
# SPDX-License-Identifier: Apache-2.0
foreach(topic comm world mesh)
  trireme_test(${topic}_test SOURCES ${topic}_test.cpp USES base comm RANKS 1 2 3 4)
endforeach()

add_executable(comm_faults comm_faults.cpp)
target_link_libraries(comm_faults PRIVATE trireme_comm trireme_base)
add_test(NAME comm_faults COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/comm_faults.sh
         $<TARGET_FILE:comm_faults> ${MPIEXEC_EXECUTABLE})
set_tests_properties(comm_faults PROPERTIES TIMEOUT 600 RUN_SERIAL ON LABELS "ranks;faults")
