set(_faults ${CMAKE_CURRENT_LIST_DIR}/../support/io_faults.c)
trireme_test(checkpoint_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/checkpoint_test.cpp USES io
  RANKS 1 2 3 4)
trireme_test(checkpoint_damage_test USES io
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/checkpoint_damage_test.cpp)
trireme_test(checkpoint_kill_test USES io LIBRARIES ${CMAKE_DL_LIBS}
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/checkpoint_kill_test.cpp ${_faults})
trireme_test(checkpoint_error_test USES io LIBRARIES ${CMAKE_DL_LIBS} RANKS 1 2
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/checkpoint_error_test.cpp ${_faults})
