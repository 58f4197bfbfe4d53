# What a run leaves and others read: its lock, status, metrics, events; sweeps and plots.
# SPDX-License-Identifier: Apache-2.0
trireme_test(run_lock_test SOURCES run_lock_test.cpp ../support/io_faults.c USES io
             LIBRARIES ${CMAKE_DL_LIBS})
trireme_test(event_file_test SOURCES event_file_test.cpp USES io)
trireme_test(run_files_test SOURCES run_files_test.cpp USES io app)
trireme_test(sweep_test SOURCES sweep_test.cpp USES io app)
trireme_test(plot_test SOURCES plot_test.cpp markup_test.cpp USES app)
trireme_test(help_text_test SOURCES help_text_test.cpp USES io train app)
