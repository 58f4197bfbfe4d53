# What a batch system asks of the program, and where its ranks run.
# SPDX-License-Identifier: Apache-2.0
trireme_test(interruptions_test SOURCES interruptions_test.cpp USES train)
trireme_test(startup_report_test SOURCES startup_report_test.cpp USES train)
