# Tests of the whole program, and the helpers that they run beside it.
# SPDX-License-Identifier: Apache-2.0
add_executable(h5_compare ${PROJECT_SOURCE_DIR}/tests/support/h5_compare.cpp)
target_link_libraries(h5_compare PRIVATE trireme_io)
set_target_properties(h5_compare PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})

# The whole program with faults beneath it.
add_library(io_faults SHARED ${PROJECT_SOURCE_DIR}/tests/support/io_faults.c)
target_include_directories(io_faults PRIVATE ${PROJECT_SOURCE_DIR}/tests)
target_compile_definitions(io_faults PRIVATE IO_FAULTS_PRELOAD)
target_link_libraries(io_faults PRIVATE ${CMAKE_DL_LIBS})
trireme_long_programs(io_faults)

# Which files a process opens.
add_library(file_calls SHARED ${PROJECT_SOURCE_DIR}/tests/support/file_calls.c)
target_link_libraries(file_calls PRIVATE ${CMAKE_DL_LIBS})
trireme_long_programs(file_calls)

# The largest memory of a process.
add_executable(peak_memory ${PROJECT_SOURCE_DIR}/tests/support/peak_memory.c)
trireme_long_programs(peak_memory)

foreach(script init numbers parity plan products search steady)
  trireme_add_test(regression.${script} RANKS 4 TIMEOUT 900
                   COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/${script}.sh)
endforeach()
foreach(script codes data environment folders installed resume start text use views)
  trireme_add_test(regression.${script} RANKS 4 WAITS TIMEOUT 900
                   COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/${script}.sh)
endforeach()
foreach(script accounts adapters bad_data bad_folders batches best chat chat_command checkpoint_kill
        checked_decks choices convert_resume disk_weights faults folder_families folder_texts health interruptions job_scripts latest links loading mesh_faults outputs partner_copies perplexity placement profile reproducible rerun
        quantized preferences qlora qlora_memory records report resume_files resume_recipes sharded_resume signals sweep)
  trireme_add_test(regression.${script} RANKS 4 WAITS LONG TIMEOUT 900
                   COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/${script}.sh)
endforeach()
trireme_add_test(regression.plan_schedules LONG TIMEOUT 900
                 COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/plan_schedules.sh)
set_property(TEST regression.bad_data regression.checkpoint_kill regression.convert_resume regression.disk_weights regression.latest APPEND PROPERTY
             ENVIRONMENT TRIREME_IO_FAULTS=$<TARGET_FILE:io_faults>)
set_property(TEST regression.loading regression.placement regression.qlora_memory regression.quantized APPEND PROPERTY
             ENVIRONMENT TRIREME_PEAK_MEMORY=$<TARGET_FILE:peak_memory>)
set_property(TEST regression.resume_files APPEND PROPERTY
             ENVIRONMENT TRIREME_FILE_CALLS=$<TARGET_FILE:file_calls>)
