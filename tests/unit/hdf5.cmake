trireme_test(hdf5_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/hdf5_test.cpp USES io)
