# Attention of sequences that are split over ranks.
# SPDX-License-Identifier: Apache-2.0
trireme_test(context_attention_test SOURCES context_attention_test.cpp USES parallel
             RANKS 2 LONG_RANKS 1 3 4)
