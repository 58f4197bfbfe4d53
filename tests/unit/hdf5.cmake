trireme_test(hdf5_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/hdf5_test.cpp USES io)
# Makes files with HDF5 itself, whose parallel header includes mpi.h.
trireme_test(hdf5_hostile_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/hdf5_hostile_test.cpp USES io
  LIBRARIES HDF5::HDF5 MPI::MPI_C)
