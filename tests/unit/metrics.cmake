trireme_test(metrics_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/metrics_test.cpp USES io)
