trireme_test(background_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/background_test.cpp USES io)
