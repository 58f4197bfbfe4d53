// Communicator: an owned communicator of MPI; the check of MPI's return codes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <source_location>
#include <string>

#include "comm/mpi/mpi.hpp"

namespace trireme::comm {

// Throws Error(transport) with MPI's own text unless `code` is MPI_SUCCESS.
void check_mpi(int code, const char* call,
               std::source_location at = std::source_location::current());
std::string mpi_error_text(int code);

// An owned communicator that returns errors instead of ending the job.
class Communicator {
 public:
  Communicator() = default;
  explicit Communicator(MPI_Comm comm);
  Communicator(Communicator&& other) noexcept;
  Communicator& operator=(Communicator&& other) noexcept;
  ~Communicator();

  static Communicator duplicate(MPI_Comm comm);

  MPI_Comm get() const { return comm_; }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

}  // namespace trireme::comm
