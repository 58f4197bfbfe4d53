trireme_test(batch_loader_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/batch_loader_test.cpp USES train)
trireme_test(sample_list_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/sample_list_test.cpp USES train)
