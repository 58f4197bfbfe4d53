// DiskWindows: reading ahead and writing behind.
// SPDX-License-Identifier: Apache-2.0
#include "optim/disk_windows.hpp"

#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string_view>

#include "base/log.hpp"
#include "base/node_folder.hpp"
#include "base/thread_signals.hpp"
#include "base/writable_folder.hpp"

namespace trireme::optim {
namespace {

constexpr std::int64_t block = ScratchFile::block;
// A window has as many elements at most: a read of 4 MiB for each state in fp32 is as
// fast as larger ones. Small states still have several.
constexpr std::int64_t most_elements = 1 << 20, windows_of_a_state = 8;

std::int64_t whole_blocks(std::int64_t bytes) { return divide_up(bytes, block) * block; }

std::string_view contents_of(const StoreConfig& config) {
  return config.offload == Offload::disk_weights ? "the weights and the optimizer's state"
                                                 : "the optimizer's state";
}

ScratchFile::Config file_config(const StoreContext& context) {
  const int rank = context.mesh.rank();
  return {.folder = offload_folder(context.config.offload_directory, rank),
          .name = format("trireme-optimizer-state-{}-{}", ::getpid(), rank),
          .contents = format("{} of rank {}", contents_of(context.config), rank),
          .remedy =
              "name a folder on a disk with more room (parallel.offload_directory), "
              "offload less (parallel.offload_fraction), or use more ranks"};
}

}  // namespace

std::string offload_folder(const std::string& written, int rank) {
  constexpr std::string_view key = "parallel.offload_directory";
  std::string folder = node_folder(written, key, "/tmp");
  const std::string why = why_no_files_in(folder);
  require(why.empty(), Status::cannot_create,
          "{} = \"{}\": rank {} cannot write to that folder on its host: {}: name one "
          "that is there on every node",
          key, folder, rank, why);
  return folder;
}

std::byte* first_block_in(const Buffer& memory) {
  void* start = memory.view().raw();
  std::size_t space = memory.bytes();
  return static_cast<std::byte*>(
      std::align(static_cast<std::size_t>(block), space - block, start, space));
}

DiskWindows::DiskWindows(StoreContext& context, Device device, std::vector<State> states)
    : context_(context) {
  std::int64_t most = 0;
  for (const State& state : states) most = std::max(most, state.elements);
  // A multiple of the block for every type, however narrow.
  window_ = std::min(whole_blocks(divide_up(most, windows_of_a_state)), most_elements);
  std::int64_t window_bytes = 0;
  for (const State& state : states) {
    const auto width = static_cast<std::int64_t>(size_of(state.type));
    Row& row = rows_.emplace_back(
        Row{state, end_, whole_blocks(state.elements * width), window_bytes});
    end_ += row.bytes;
    if (state.elements > 0) window_bytes += window_ * width;
  }
  if (end_ == 0) return;
  // Direct I/O needs an address at a multiple of the block.
  for (Buffer& memory : memory_)
    memory = flat_buffer(device, DType::u8, window_bytes + block, MemoryClass::offloaded,
                         "windows on the optimizer's state");
  if (device.is_meta()) return;
  const ScratchFile::Config config = file_config(context);
  file_ = ScratchFile(config, end_);
  map_ = file_.map();
  log::info("offload   {} of {} on the disk, {}: {}",
            human_bytes(static_cast<double>(end_)), config.contents, config.folder,
            file_.is_direct() ? "by direct I/O"
                              : "through the system's cache (no direct I/O there)");
}

std::size_t DiskWindows::memory_bytes() const {
  return memory_[0].bytes() + memory_[1].bytes();
}

TensorView DiskWindows::mapped(std::size_t state) {
  const Row& row = rows_[state];
  const Shape shape{row.state.elements};
  if (map_ == nullptr) return {nullptr, row.state.type, shape, Device::meta()};
  touched_ = true;
  return {map_ + row.begin, row.state.type, shape};
}

void DiskWindows::flush_mapping() {
  if (touched_) file_.flush_mapping();
  touched_ = false;
}

StateBox::Fill DiskWindows::reader_of(const TensorView& data) const {
  const auto* const first = static_cast<const std::byte*>(data.raw());
  if (map_ == nullptr || first < map_ || first >= map_ + end_) return {};
  return [this, begin = static_cast<std::int64_t>(first - map_)](std::int64_t element,
                                                                 const TensorView& out) {
    const auto width = static_cast<std::int64_t>(size_of(out.dtype()));
    file_.read_any(begin + element * width,
                   {static_cast<std::byte*>(out.raw()), out.bytes()});
  };
}

DiskWindows::Blocks DiskWindows::blocks_of(std::size_t state, std::int64_t begin,
                                           std::int64_t count) const {
  const Row& row = rows_[state];
  const auto width = static_cast<std::int64_t>(size_of(row.state.type));
  const std::int64_t first = begin * width / block * block;
  return {row.begin + first, whole_blocks((begin + count) * width - first),
          begin * width - first};
}

void DiskWindows::read(const Blocks& blocks, std::byte* memory) const {
  if (map_ != nullptr)
    file_.read(blocks.begin, {memory, static_cast<std::size_t>(blocks.bytes)});
}

void DiskWindows::start(Range range, Pass pass) {
  require(current_ < 0 && !work_.valid(), "a pass over the disk within another");
  flush_mapping();
  pass_ = pass;
  next_ = range.begin / window_;
  last_ = range.count() > 0 ? (range.end - 1) / window_ : next_ - 1;
  if (next_ <= last_) in_background(-1, next_);
}

std::int64_t DiskWindows::elements_per_window(std::int64_t begin,
                                              std::int64_t count) const {
  return std::min(count, (begin / window_ + 1) * window_ - begin);
}

TensorView DiskWindows::rows(std::size_t state, std::int64_t begin, std::int64_t count) {
  const Row& row = rows_[state];
  const std::int64_t window = begin / window_;
  require(
      elements_per_window(begin, count) == count && begin + count <= row.state.elements,
      "elements {} to {} of a state on the disk lie in several windows", begin,
      begin + count);
  go_to(window);
  if (map_ == nullptr) return {nullptr, row.state.type, {count}, Device::meta()};
  const auto width = static_cast<std::int64_t>(size_of(row.state.type));
  return {memory_of(window) + row.offset + (begin - window * window_) * width,
          row.state.type,
          {count}};
}

void DiskWindows::go_to(std::int64_t window) {
  require(current_ <= window && window <= last_, "window {} on the disk after {}", window,
          current_);
  while (current_ < window) advance();
}

// The window that is on its way becomes the current one; behind it goes what is written,
// and comes what is wanted next, in the same memory.
void DiskWindows::advance() {
  wait();
  const std::int64_t before = current_;
  current_ = next_++;
  in_background(pass_ == Pass::updates ? before : -1, next_ <= last_ ? next_ : -1);
}

void DiskWindows::finish() {
  wait();
  if (pass_ == Pass::updates && current_ >= 0) write(current_);
  current_ = -1;
}

// -1: none. Counters are of this thread, which waits before it reads them.
void DiskWindows::in_background(std::int64_t written, std::int64_t wanted) {
  if (map_ == nullptr || (written < 0 && wanted < 0)) return;
  work_ = std::async(std::launch::async, [this, written, wanted] {
    block_signals();
    use_signal_stack();
    if (written >= 0) write(written);
    if (wanted >= 0) read(wanted);
  });
}

void DiskWindows::wait() {
  if (work_.valid()) work_.get();
}

std::byte* DiskWindows::memory_of(std::int64_t window) const {
  return first_block_in(memory_[static_cast<std::size_t>(window % 2)]);
}

// Calls move_bytes(begin in the file, memory) for the part of each state in a window.
template <class Move>
void DiskWindows::move(std::int64_t window, std::int64_t& counter,
                       const Move& move_bytes) {
  if (map_ == nullptr) return;
  for (const Row& row : rows_) {
    const std::int64_t width = static_cast<std::int64_t>(size_of(row.state.type));
    const std::int64_t begin = window * window_ * width;
    const std::int64_t bytes = std::min(window_ * width, row.bytes - begin);
    if (bytes <= 0) continue;
    move_bytes(row.begin + begin, std::span(memory_of(window) + row.offset,
                                            static_cast<std::size_t>(bytes)));
    counter += bytes;
  }
}

void DiskWindows::read(std::int64_t window) {
  move(window, context_.traffic.from_disk,
       [&](std::int64_t begin, std::span<std::byte> memory) {
         file_.read(begin, memory);
       });
}

void DiskWindows::write(std::int64_t window) {
  move(window, context_.traffic.to_disk,
       [&](std::int64_t begin, std::span<std::byte> memory) {
         file_.write(begin, memory);
       });
}

}  // namespace trireme::optim
