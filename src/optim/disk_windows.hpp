// DiskWindows: states on a disk, of which an update sees some elements at a time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <future>
#include <span>
#include <string>
#include <vector>

#include "base/memory.hpp"
#include "base/scratch_file.hpp"
#include "optim/store_context.hpp"

namespace trireme::optim {

// The folder of parallel.offload_directory as it is written, on this rank.
// Throws Error(cannot_create) where the rank cannot write to it.
std::string offload_folder(const std::string& written, int rank);

// Memory that has a block more than it needs: where its first block begins.
std::byte* first_block_in(const Buffer& memory);

// Each state is a row of elements; those of all states with the same number are updated
// together. A window holds some consecutive elements of every state in memory of the
// host. There are two: while one is updated a thread writes what the other held and reads
// what comes next, so that the disk works under the update.
class DiskWindows {
 public:
  struct State {
    DType type = DType::f32;
    std::int64_t elements = 0;  // none: it is not kept
  };
  enum class Pass : std::uint8_t { reads, updates };  // updates: also written back

  // On meta nothing but what it would take. Throws as ScratchFile does.
  DiskWindows(StoreContext& context, Device device, std::vector<State> states);

  // A pass goes over elements [range), upwards; it begins to read.
  void start(Range range, Pass pass);
  // How many of `count` elements from `begin` on lie in one window.
  std::int64_t elements_per_window(std::int64_t begin, std::int64_t count) const;
  // Elements of a state that lie in one window, valid until a later window is asked for.
  TensorView rows(std::size_t state, std::int64_t begin, std::int64_t count);
  // All is on the disk when it returns.
  void finish();

  // A state as memory that is mapped, between passes: for initial values, and checkpoints
  // that are loaded. flush_mapping() gives the pages back, as does the next pass.
  TensorView mapped(std::size_t state);
  void flush_mapping();
  // Where `data` is such memory: reads it from the file, and names what goes wrong.
  StateBox::Fill reader_of(const TensorView& data) const;

  // Whole blocks of the file that hold some elements of a state, which begin `lead` bytes
  // behind the first.
  struct Blocks {
    std::int64_t begin = 0, bytes = 0, lead = 0;
  };
  Blocks blocks_of(std::size_t state, std::int64_t begin, std::int64_t count) const;
  // Reads them past the windows, between passes and from any thread, to memory that
  // begins at a multiple of the block; nothing on meta.
  void read(const Blocks& blocks, std::byte* memory) const;

  std::size_t memory_bytes() const;
  std::size_t file_bytes() const { return static_cast<std::size_t>(end_); }
  const ScratchFile& file() const { return file_; }

 private:
  struct Row {
    State state;
    std::int64_t begin = 0, bytes = 0;  // in the file
    std::int64_t offset = 0;            // in a window's memory
  };

  void go_to(std::int64_t window);
  void advance();
  void read(std::int64_t window);
  void write(std::int64_t window);
  template <class Move>
  void move(std::int64_t window, std::int64_t& counter, const Move& move_bytes);
  std::byte* memory_of(std::int64_t window) const;
  void in_background(std::int64_t written, std::int64_t wanted);
  void wait();

  StoreContext& context_;
  std::vector<Row> rows_;
  std::int64_t window_ = 0;  // elements
  std::int64_t end_ = 0;     // of the file
  ScratchFile file_;
  std::byte* map_ = nullptr;
  bool touched_ = false;  // what is mapped may have been written to
  std::array<Buffer, 2> memory_;
  Pass pass_ = Pass::reads;
  std::int64_t next_ = 0, last_ = -1;  // windows of the pass: the next to be used
  std::int64_t current_ = -1;
  std::future<void> work_;  // last: waited for before the rest goes
};

}  // namespace trireme::optim
