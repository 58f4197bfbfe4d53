trireme_test(gemm_test SOURCES gemm_test.cpp USES kernels)
trireme_test(gemm_epilogue_test SOURCES gemm_epilogue_test.cpp USES kernels)
trireme_test(quantize_test SOURCES quantize_test.cpp USES kernels)
