trireme_test(edges_test SOURCES edges_test.cpp USES parallel RANKS 1 2 3 4)
trireme_test(parity_test SOURCES parity_test.cpp USES train RANKS 1 2 3 4 6 8)
trireme_test(generator_test SOURCES generator_test.cpp USES infer train RANKS 1 2 4)
