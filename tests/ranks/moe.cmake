# Tests of MoE layers on several ranks.
# SPDX-License-Identifier: Apache-2.0
trireme_test(moe_ranks_test SOURCES moe_test.cpp USES nn comm RANKS 1 2 LONG_RANKS 3 4)
trireme_test(moe_rounds_test SOURCES moe_rounds_test.cpp USES nn comm RANKS 2 4 LONG_RANKS 3)
