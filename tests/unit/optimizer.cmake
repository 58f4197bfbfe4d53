trireme_test(optimizer_test SOURCES optimizer_test.cpp USES kernels LIBRARIES OpenMP::OpenMP_CXX)
trireme_test(narrow_store_test SOURCES narrow_store_test.cpp USES optim)
trireme_test(rounding_test SOURCES rounding_test.cpp USES kernels)
trireme_test(fp8_squares_test SOURCES fp8_squares_test.cpp USES kernels)
