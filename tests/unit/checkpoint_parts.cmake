trireme_test(background_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/background_test.cpp USES io)
trireme_test(run_lock_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/run_lock_test.cpp USES io)
