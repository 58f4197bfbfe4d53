// WandbFile: a run of Weights & Biases as its offline mode writes it, for `wandb sync`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "base/directory.hpp"
#include "io/tracker.hpp"

namespace trireme::io {

// A log of records in blocks of 32 KiB, as LevelDB has them but for the checksum: seven
// bytes at the start of the file, then fragments {checksum 4, length 2, kind 1, data};
// kinds 1 whole, 2 first, 3 middle, 4 last. A block's last bytes stay zero where no
// fragment's head fits.
class WandbLog {
 public:
  static constexpr std::size_t block_bytes = 32768;

  // The start of a file.
  std::string head();
  // A record's fragments, padding included, from where the last one ended.
  std::string frame(std::string_view record);

 private:
  std::size_t at_ = 0;  // bytes so far
};

// CRC-32 (of zlib) of a fragment's kind and data.
std::uint32_t fragment_checksum(unsigned char kind, std::string_view data);

// wandb/offline-run-<time>-<id>/run-<id>.wandb below the store, a new folder for each
// start; the id is the run directory's, so that all starts are one run. Each record is in
// the file when write() returns.
class WandbFile : public Tracker {
 public:
  explicit WandbFile(const TrackedRun& run);

  void write(const Record& record) override;
  void write_text(std::int64_t step, const std::string& tag,
                  const std::string& text) override;
  void finish(RunEnd end) override;
  const std::string& path() const { return path_; }

 private:
  void append(unsigned field, const std::string& message);

  std::string path_, id_;
  Descriptor file_;
  WandbLog log_;
  std::int64_t records_ = 0;
  double start_ = 0;  // seconds since 1970
};

}  // namespace trireme::io
