# Orders of context parallelism.
# SPDX-License-Identifier: Apache-2.0
trireme_test(context_order_test SOURCES context_order_test.cpp USES parallel)
