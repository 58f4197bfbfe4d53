// OpenFiles: files that stay open between reads, those that were used last.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "io/hdf5_file.hpp"

namespace trireme::io {

// An open descriptor, and what HDF5 holds open of the same file, if it was asked.
struct OpenFile {
  explicit OpenFile(int opened) : descriptor(opened) {}
  ~OpenFile();
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  int descriptor = -1;
  std::mutex opening;  // of h5
  std::unique_ptr<Hdf5File> h5;
};

// The sources of a process share one of these: it does not matter how many files they
// have, nor how many sources there are. A file that is being read stays open until its
// reader is done, whatever is opened meanwhile. For any thread.
class OpenFiles {
 public:
  explicit OpenFiles(std::size_t most) : most_(most) {}

  // The file of this key, which `open` opens if it is not open.
  std::shared_ptr<OpenFile> use(std::uint64_t key, const std::function<int()>& open);
  // The file is used no more.
  void forget(std::uint64_t key);
  std::size_t size() const;
  std::int64_t opened() const;  // so often since the start

 private:
  using Entry = std::pair<std::uint64_t, std::shared_ptr<OpenFile>>;

  const std::size_t most_;
  mutable std::mutex mutex_;
  std::int64_t opened_ = 0;
  std::list<Entry> entries_;  // the one used last is first
  std::unordered_map<std::uint64_t, std::list<Entry>::iterator> known_;
};

// Of the sources of this process. With HDF5 a file takes two descriptors: together they
// are well below the smallest limits, of which MPI needs its share.
inline constexpr std::size_t most_open_files = 64;
OpenFiles& open_data_files();

}  // namespace trireme::io
