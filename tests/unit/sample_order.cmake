trireme_test(sample_order_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/sample_order_test.cpp USES train)
