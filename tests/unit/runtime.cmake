trireme_test(runtime_test SOURCES runtime_test.cpp USES kernels)
