# Bad decks through the whole program.
# SPDX-License-Identifier: Apache-2.0
trireme_add_test(bad_decks WAITS LONG COMMAND ${CMAKE_COMMAND} -E env TRIREME=$<TARGET_FILE:trireme>
                                   bash ${CMAKE_CURRENT_LIST_DIR}/bad_decks.sh)
