# The watchdog's report and the guard of steps.
# SPDX-License-Identifier: Apache-2.0
trireme_test(position_test SOURCES position_test.cpp USES base comm)
trireme_test(step_guard_test SOURCES step_guard_test.cpp USES train)
