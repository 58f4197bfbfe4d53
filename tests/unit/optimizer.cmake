trireme_test(optimizer_test SOURCES optimizer_test.cpp USES kernels LIBRARIES OpenMP::OpenMP_CXX)
