# Parts of the trainer that several ranks make together.
# SPDX-License-Identifier: Apache-2.0
trireme_test(replica_check_test USES train RANKS 2 LONG_RANKS 3
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/replica_check_test.cpp)
trireme_test(partner_copies_ranks_test USES train RANKS 2 LONG_RANKS 4
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/partner_copies_test.cpp)
trireme_test(sample_route_test USES train RANKS 2 3 LONG_RANKS 4
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/sample_route_test.cpp)
trireme_test(shared_texts_test USES train RANKS 2 LONG_RANKS 3
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/shared_texts_test.cpp)
trireme_test(checkpoint_memory_test USES train RANKS 2 LONG_RANKS 3
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/checkpoint_memory_test.cpp)
