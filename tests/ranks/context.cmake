# Attention of sequences that are split over ranks.
# SPDX-License-Identifier: Apache-2.0
trireme_test(context_attention_test SOURCES context_attention_test.cpp sequence_exchange_test.cpp
             USES parallel RANKS 2 LONG_RANKS 1 3 4)
trireme_test(packing_test SOURCES packing_test.cpp USES train RANKS 2 LONG_RANKS 4
             LIBRARIES trireme_mesh_run)
