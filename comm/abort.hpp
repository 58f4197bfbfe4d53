// How a rank that failed ends the whole job.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <string>

#include "base/error.hpp"

namespace trireme::comm {

// Ends every rank with `status` through MPI_Abort; says nothing. May be called from any
// thread.
[[noreturn]] void abort_job(Status status);

// Ends a rank whose MPI has not started, with a message where it `speaks`. Those that do
// not stay some seconds longer: a launcher ends all ranks once one has left, and forgets
// what it has not passed on.
[[noreturn]] void leave_before_mpi(Status status, bool speaks,
                                   const std::string& message);

// Ends this process with `status` after so many seconds if nothing has until then: for
// what may hang before abort_job() is called, such as a file system. Any thread.
void end_within(int seconds, Status status) noexcept;

// Time limit for writing a failure report. At scale, dumping the flight recorder,
// agreeing on the reporter and reading thousands of rank statuses may take 30 s; waiting
// for another rank's report takes 15 s.
constexpr int report_limit_seconds = 60;
// A rank that leaves the report to another waits this long, then ends the job itself. The
// reporter may spend two 2 s time-outs on a hung disk (watchdog.cpp), and as much again
// on a busy machine.
constexpr unsigned other_report_wait_seconds = 8;

// Reports `error` once for all ranks that fail alike, then ends the job with its status.
[[noreturn]] void end_job(std::exception_ptr error) noexcept;

}  // namespace trireme::comm
