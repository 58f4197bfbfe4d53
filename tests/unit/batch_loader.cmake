trireme_test(batch_loader_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/batch_loader_test.cpp USES train)
