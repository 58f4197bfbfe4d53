// The two ways in which a rank that failed ends the whole job.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>

#include "base/error.hpp"

namespace trireme::comm {

// Ends every rank with `status` through MPI_Abort; says nothing. May be called from any
// thread.
[[noreturn]] void abort_job(Status status);

// Reports `error` once for all ranks that fail alike, then ends the job with its status.
[[noreturn]] void end_job(std::exception_ptr error) noexcept;

}  // namespace trireme::comm
