// The file driver under HDF5: system calls of our own, whose failures HDF5 never sees.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hdf5.h>

#include <cstdint>
#include <mutex>
#include <string>

namespace trireme::io {

// Holds the one lock on HDF5 and keeps the library from printing its error stack.
class Hdf5Lock {
 public:
  Hdf5Lock();

 private:
  std::unique_lock<std::mutex> lock_;
};

// What happened to one file beneath HDF5. HDF5 1.10 cannot close a file whose writes
// failed (it retries, leaks identifiers, and may loop for ever at exit), so the driver
// answers every write with success and notes the first failure here; the owner of the
// file looks at it after each call.
struct Hdf5Output {
  int error = 0;           // errno of the first failure, 0: none
  const char* call = "";   // the system call that failed
  bool opened = false;     // the file itself could be opened
  std::int64_t bytes = 0;  // size at close
  bool sync_at_close = true;
};

// Opens a file to read through the driver, with `output` taking the failures; the caller
// holds the lock and keeps `output` alive until the file is closed. Negative on failure.
hid_t open_hdf5(const std::string& path, Hdf5Output& output);
// The same of a new file, into the regular file `descriptor`, which the caller may close
// then; `path` is for HDF5's messages. Data and directory entries carry no times, so that
// equal contents give equal bytes.
hid_t create_hdf5(const std::string& path, int descriptor, Hdf5Output& output);

// The innermost message of HDF5's error stack, and clears the stack.
std::string hdf5_reason();

}  // namespace trireme::io
