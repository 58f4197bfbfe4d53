# The test of the models against PyTorch and transformers.
# SPDX-License-Identifier: Apache-2.0
trireme_test(reference_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/reference_test.cpp
             USES train infer RANKS 1 2)
trireme_test(muon_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/muon_test.cpp USES optim)
target_compile_definitions(muon_test PRIVATE
  MUON_REFERENCE="${CMAKE_CURRENT_LIST_DIR}/muon.txt")
trireme_test(tokenizers_test SOURCES tokenizers_test.cpp USES text)
trireme_test(trained_test SOURCES trained_test.cpp USES text)
trireme_test(chat_test SOURCES chat_test.cpp USES data)
trireme_test(dpo_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/dpo_test.cpp USES train RANKS 1 2)
trireme_test(format1_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/format1_test.cpp USES io)
target_compile_definitions(format1_test PRIVATE
  FORMAT1_FOLDER="${CMAKE_CURRENT_LIST_DIR}/format1")
