# Bad decks through the whole program.
# SPDX-License-Identifier: Apache-2.0
add_test(NAME bad_decks
  COMMAND ${CMAKE_COMMAND} -E env TRIREME=$<TARGET_FILE:trireme>
          bash ${CMAKE_CURRENT_SOURCE_DIR}/bad_decks.sh)
set_tests_properties(bad_decks PROPERTIES TIMEOUT 600 LABELS "regression")
