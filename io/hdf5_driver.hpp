// The file driver under HDF5: system calls of our own, whose failures HDF5 never sees.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hdf5.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

namespace trireme::io {

// Holds the one lock on HDF5, keeps the library from printing its error stack, and
// switches its plugins off. Calls that fail under it leave their reason to hdf5_reason().
class Hdf5Lock {
 public:
  Hdf5Lock();
  ~Hdf5Lock();
  Hdf5Lock(const Hdf5Lock&) = delete;
  Hdf5Lock& operator=(const Hdf5Lock&) = delete;

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
  bool is_other = false;   // it is neither a regular file nor a directory
  std::int64_t bytes = 0;  // size at close
  bool sync_at_close = true;
};

// Opens a file to read through the driver, with `output` taking the failures; the caller
// holds the lock. A file that is open already HDF5 opens by the driver's file and the
// `output` of its first opening, which may outlive whoever opened it first. With
// `open_file` that descriptor, which stays the caller's, is the file, and `path` only its
// name. Negative on failure. This, create_hdf5() and append_hdf5() are the only ways to a
// file: whatever else HDF5 tries to open cannot be opened.
hid_t open_hdf5(const std::string& path, const std::shared_ptr<Hdf5Output>& output,
                int open_file = -1);
// The same of a new file, into the regular file `descriptor`, which the caller may close
// then; `path` is for HDF5's messages. Data and directory entries carry no times, so that
// equal contents give equal bytes.
hid_t create_hdf5(const std::string& path, int descriptor,
                  const std::shared_ptr<Hdf5Output>& output);

// The same of a file that create_hdf5() has made, to add to it.
hid_t append_hdf5(const std::string& path, int descriptor,
                  const std::shared_ptr<Hdf5Output>& output);

// Why the first HDF5 call failed since the lock was taken, or since the last question:
// the innermost message of the error stack, or the other file that it would have opened.
std::string hdf5_reason();

}  // namespace trireme::io
