trireme_test(reference_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/reference_test.cpp
             USES train RANKS 1 2)
