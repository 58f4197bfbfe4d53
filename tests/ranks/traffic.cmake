# What is counted on a mesh, and what the plan says of it.
# SPDX-License-Identifier: Apache-2.0
trireme_test(traffic_test SOURCES traffic_test.cpp USES plan train RANKS 2 LONG_RANKS 3 4)
trireme_test(step_totals_test SOURCES step_totals_test.cpp USES engine RANKS 2 LONG_RANKS 3 4)
