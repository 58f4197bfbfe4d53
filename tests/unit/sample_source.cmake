trireme_test(sample_source_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/sample_source_test.cpp USES io)
