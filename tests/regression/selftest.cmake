# The self-test of devices, on CPUs and on the emulated GPU; the speed of hosts; who judges a step.
# SPDX-License-Identifier: Apache-2.0
trireme_add_test(regression.selftest RANKS 2 LONG
                 COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/selftest.sh)
trireme_add_test(regression.speed RANKS 4 LONG
                 COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/speed.sh)
if(TRIREME_CUDA STREQUAL "EMULATED")
  trireme_add_test(gpu.selftest RANKS 2 LABELS gpu
                   COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/selftest.sh emulated)
  trireme_add_test(gpu.decision RANKS 2 LABELS gpu
                   COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/decision.sh)
endif()
