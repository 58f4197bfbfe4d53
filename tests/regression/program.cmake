add_executable(h5_compare ${PROJECT_SOURCE_DIR}/tests/support/h5_compare.cpp)
target_link_libraries(h5_compare PRIVATE trireme_io)
set_target_properties(h5_compare PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})

foreach(script accounts health installed interruptions parity report resume sharded_resume
        use faults mesh_faults steady sweep)
  trireme_add_test(regression.${script} RANKS 4 TIMEOUT 900
                   COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/${script}.sh)
endforeach()
