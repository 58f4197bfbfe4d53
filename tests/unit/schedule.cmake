# Tests of pipeline schedules' simulation.
# SPDX-License-Identifier: Apache-2.0
trireme_test(schedule_simulation_test
             SOURCES ${CMAKE_CURRENT_LIST_DIR}/schedule_simulation_test.cpp USES train)
