# The self-test of devices, on CPUs and on the emulated GPU; who judges a step there.
# SPDX-License-Identifier: Apache-2.0
trireme_add_test(regression.selftest RANKS 2 LONG
                 COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/selftest.sh)
if(TRIREME_CUDA STREQUAL "EMULATED")
  trireme_add_test(gpu.selftest RANKS 2 LABELS gpu
                   COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/selftest.sh emulated)
  trireme_add_test(gpu.decision RANKS 2 LABELS gpu
                   COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/decision.sh)
endif()
