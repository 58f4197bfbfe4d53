# Tests of comm.
# SPDX-License-Identifier: Apache-2.0
foreach(topic comm device_comm world mesh)
  trireme_test(${topic}_test SOURCES ${topic}_test.cpp USES base comm RANKS 1 2
               LONG_RANKS 3 4)
endforeach()

trireme_test(open_mpi_test SOURCES open_mpi_test.cpp USES base comm RANKS 1 2
             LIBRARIES MPI::MPI_C)
# With a number of the user's.
trireme_add_test(open_mpi_test.set COMMAND open_mpi_test)
set_property(TEST open_mpi_test.set APPEND PROPERTY ENVIRONMENT
             OMPI_MCA_pml_ob1_send_pipeline_depth=7)

trireme_test(claim_test SOURCES claim_test.cpp USES base comm RANKS 1 2 LONG_RANKS 4
             LIBRARIES MPI::MPI_C)

# The routes of many ranks, on few: trees, chains and doubling blocks.
foreach(ranks 2 3 5 8)
  set(long)
  if(ranks EQUAL 8)
    set(long LONG)
  endif()
  trireme_add_test(comm_routes_test.${ranks} RANKS ${ranks} ${long}
    COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks} ${MPIEXEC_PREFLAGS}
            $<TARGET_FILE:comm_test> ${MPIEXEC_POSTFLAGS})
  set_property(TEST comm_routes_test.${ranks} APPEND PROPERTY ENVIRONMENT
               TRIREME_TEST_ROUTES=all)
endforeach()

add_executable(comm_faults comm_faults.cpp)
target_link_libraries(comm_faults PRIVATE trireme_comm trireme_base trireme_test_options)
trireme_long_programs(comm_faults)
trireme_add_test(comm_faults RANKS 3 WAITS LONG
                 COMMAND ${CMAKE_CURRENT_LIST_DIR}/comm_faults.sh
                         $<TARGET_FILE:comm_faults> ${MPIEXEC_EXECUTABLE})

# 20,000 signals for each type of number, on one thread and on two.
trireme_test(signal_products_test SOURCES signal_products_test.cpp USES base comm kernels
             RANKS 1 2 LIBRARIES OpenMP::OpenMP_CXX)
trireme_add_test(signal_products_test.threads COMMAND signal_products_test)
set_property(TEST signal_products_test.threads APPEND PROPERTY ENVIRONMENT OMP_NUM_THREADS=2
             OPENBLAS_NUM_THREADS=2)
