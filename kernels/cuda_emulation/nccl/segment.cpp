// What the ranks of an emulated communicator share.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda_emulation/nccl/segment.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "kernels/cuda_emulation/shared_pages.hpp"

namespace trireme::cuda_emulation::nccl {
namespace {

constexpr std::uint64_t magic_word = 0x7472697265'6e63ull;

}  // namespace

bool SegmentName::is_valid() const { return magic == magic_word; }

std::size_t Ring::write(const char* from, std::size_t count) {
  const std::uint64_t at = written.load();
  const std::size_t room = capacity - static_cast<std::size_t>(at - read.load());
  const std::size_t moved = std::min(count, room);
  for (std::size_t done = 0; done < moved;) {
    const std::size_t place = (at + done) % capacity;
    const std::size_t part = std::min(moved - done, capacity - place);
    std::memcpy(bytes.data() + place, from + done, part);
    done += part;
  }
  written.store(at + moved);
  return moved;
}

std::size_t Ring::take(char* to, std::size_t count) {
  const std::uint64_t at = read.load();
  const std::size_t moved =
      std::min(count, static_cast<std::size_t>(written.load() - at));
  for (std::size_t done = 0; done < moved;) {
    const std::size_t place = (at + done) % capacity;
    const std::size_t part = std::min(moved - done, capacity - place);
    std::memcpy(to + done, bytes.data() + place, part);
    done += part;
  }
  read.store(at + moved);
  return moved;
}

SegmentName Segment::create() {
  return {magic_word, ::getpid(), make_shared_pages("nccl", sizeof(Segment))};
}

Segment* Segment::attach(const SegmentName& name) {
  return static_cast<Segment*>(
      map_shared_pages(name.process, name.file, sizeof(Segment)));
}

void Segment::detach(Segment* segment) { unmap_shared_pages(segment, sizeof(Segment)); }

void Segment::close(const SegmentName& name) {
  if (name.process == ::getpid()) ::close(name.file);
}

}  // namespace trireme::cuda_emulation::nccl
