trireme_test(stage_test SOURCES stage_test.cpp USES train)
trireme_test(schedule_test SOURCES schedule_test.cpp USES train)
trireme_test(learning_rate_test SOURCES learning_rate_test.cpp USES optim)
trireme_test(sampler_test SOURCES sampler_test.cpp USES infer)
