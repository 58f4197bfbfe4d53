# Files of a run: the lock of its directory.
# SPDX-License-Identifier: Apache-2.0
trireme_test(run_lock_test SOURCES run_lock_test.cpp USES io)
