# Deck, its table of keys, and the run configuration.
# SPDX-License-Identifier: Apache-2.0
trireme_test(deck_test SOURCES deck_test.cpp USES io)
trireme_test(deck_keys_test SOURCES deck_keys_test.cpp USES io train)
trireme_test(run_config_test SOURCES run_config_test.cpp run_config_rules_test.cpp
             run_config_experts_test.cpp run_config_advice_test.cpp USES io train)
target_compile_definitions(deck_keys_test
  PRIVATE TRIREME_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
target_compile_definitions(run_config_test
  PRIVATE TRIREME_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
