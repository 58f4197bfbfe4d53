// The two ways in which a rank that failed ends the whole job.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>

#include "base/error.hpp"

namespace trireme::comm {

// Ends every rank with `status` through MPI_Abort; says nothing. May be called from any
// thread.
[[noreturn]] void abort_job(Status status);

// Ends this process with `status` after so many seconds if nothing has until then: for
// what may hang before abort_job() is called, such as a file system. Any thread.
void end_within(int seconds, Status status) noexcept;

// For a report: with a flight recorder, a word with other ranks and thousands of
// positions to read it may rightly take half of that at scale, and a rank that has to
// wait for another's report 15 s.
constexpr int most_report_seconds = 60;
// A rank that leaves the report to another ends the job after so many seconds without it.
// The other may look twice for two seconds at a disk that hangs (watchdog.cpp), and be
// behind by as much on a busy machine.
constexpr unsigned seconds_for_another = 8;

// Reports `error` once for all ranks that fail alike, then ends the job with its status.
[[noreturn]] void end_job(std::exception_ptr error) noexcept;

}  // namespace trireme::comm
