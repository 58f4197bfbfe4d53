trireme_test(gemm_test SOURCES gemm_test.cpp USES kernels)
