# Tests of comm.
# SPDX-License-Identifier: Apache-2.0
foreach(topic comm device_comm world mesh)
  trireme_test(${topic}_test SOURCES ${topic}_test.cpp USES base comm RANKS 1 2 3 4)
endforeach()

add_executable(comm_faults comm_faults.cpp)
target_link_libraries(comm_faults PRIVATE trireme_comm trireme_base trireme_test_options)
trireme_add_test(comm_faults RANKS 3 WAITS
                 COMMAND ${CMAKE_CURRENT_LIST_DIR}/comm_faults.sh
                         $<TARGET_FILE:comm_faults> ${MPIEXEC_EXECUTABLE})
