// The memory ledger, Buffer and Arena.
// SPDX-License-Identifier: Apache-2.0
#include "base/memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "base/device_memory.hpp"
#include "base/out_of_memory.hpp"

namespace trireme {
namespace {

struct Entry {
  std::atomic<std::int64_t> bytes{0}, peak{0}, allocations{0};
};

std::array<Entry, memory_classes>& ledger() {
  static std::array<Entry, memory_classes> entries;
  return entries;
}

void enter(MemoryClass use, std::int64_t bytes) {
  Entry& entry = ledger()[static_cast<std::size_t>(use)];
  const auto now = entry.bytes.fetch_add(bytes) + bytes;
  auto peak = entry.peak.load();
  while (now > peak && !entry.peak.compare_exchange_weak(peak, now)) {
  }
  if (bytes > 0) entry.allocations.fetch_add(1);
}

// Zero-filled pages straight from the system: nothing lingers in the heap after release,
// and large blocks may use huge pages.
void* map_pages(std::size_t bytes) {
  void* pages =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return nullptr;
  constexpr std::size_t huge_page = 2u << 20;
  if (bytes >= huge_page) ::madvise(pages, bytes, MADV_HUGEPAGE);
  return pages;
}

}  // namespace

std::string_view name_of(MemoryClass c) {
  constexpr std::array<std::string_view, memory_classes> names = {
      "weights",       "gradients", "optimizer", "activations",
      "communication", "workspace", "data",      "offloaded"};
  return names[static_cast<std::size_t>(c)];
}

MemoryUse memory_use(MemoryClass c) {
  const Entry& entry = ledger()[static_cast<std::size_t>(c)];
  return {entry.bytes.load(), entry.peak.load(), entry.allocations.load()};
}

std::int64_t memory_allocations() {
  std::int64_t sum = 0;
  for (const Entry& entry : ledger()) sum += entry.allocations.load();
  return sum;
}

std::int64_t resident_bytes() {
  std::FILE* const file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr) return 0;
  long long total = 0, resident = 0;
  const int fields = std::fscanf(file, "%lld %lld", &total, &resident);
  std::fclose(file);
  return fields == 2 ? resident * ::sysconf(_SC_PAGESIZE) : 0;
}

Buffer::Buffer(Device device, DType dtype, const Shape& shape, MemoryClass use,
               std::string_view label)
    : Buffer(device, dtype, shape, use, label, false) {}

Buffer Buffer::pinned(DType dtype, const Shape& shape, MemoryClass use,
                      std::string_view label) {
  return Buffer(Device::host(), dtype, shape, use, label, true);
}

Buffer::Buffer(Device device, DType dtype, const Shape& shape, MemoryClass use,
               std::string_view label, bool pinned)
    : use_(use), pinned_(pinned) {
  const auto bytes = static_cast<std::size_t>(shape.elements()) * size_of(dtype);
  void* data = nullptr;
  if (!device.is_meta() && bytes > 0) {
    data = pinned             ? allocate_pinned_memory(bytes)
           : device.is_cuda() ? allocate_device_memory(device, bytes)
                              : map_pages(bytes);
    if (data == nullptr)
      throw OutOfMemory(format(
          "{} of {} for '{}' ({}) cannot be allocated: use more ranks, or less of what "
          "takes it",
          human_bytes(static_cast<double>(bytes)),
          device.is_cuda() && !pinned ? "the GPU's memory" : "memory", label,
          name_of(use)));
    enter(use, static_cast<std::int64_t>(bytes));
  }
  view_ = TensorView(data, dtype, shape, device);
}

Buffer::Buffer(Buffer&& other) noexcept
    : view_(std::exchange(other.view_, {})), use_(other.use_), pinned_(other.pinned_) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this != &other) {
    release();
    view_ = std::exchange(other.view_, {});
    use_ = other.use_;
    pinned_ = other.pinned_;
  }
  return *this;
}

Buffer::~Buffer() { release(); }

void Buffer::release() {
  if (view_.raw() == nullptr) return;
  if (pinned_) {
    free_pinned_memory(view_.raw());
  } else if (view_.device().is_cuda()) {
    free_device_memory(view_.device(), view_.raw());
  } else {
    ::munmap(view_.raw(), view_.bytes());
  }
  enter(use_, -static_cast<std::int64_t>(view_.bytes()));
  view_ = {};
}

Arena::Arena(Device device, std::size_t capacity, MemoryClass use, std::string_view label)
    : device_(device), capacity_(capacity), label_(label) {
  if (!device.is_meta()) {
    buffer_ =
        Buffer(device, DType::u8, {static_cast<std::int64_t>(capacity)}, use, label);
  }
}

TensorView Arena::take(DType dtype, const Shape& shape, std::string_view label) {
  const auto bytes = static_cast<std::size_t>(shape.elements()) * size_of(dtype);
  const std::size_t begin = top_;
  top_ += (bytes + alignment - 1) / alignment * alignment;
  peak_ = std::max(peak_, top_);
  if (device_.is_meta()) return TensorView(nullptr, dtype, shape, device_);
  require(top_ <= capacity_,
          "arena '{}' of {} bytes is too small for '{}' {} {}: {} needed", label_,
          capacity_, label, name_of(dtype), shape, top_);
  return TensorView(static_cast<std::byte*>(buffer_.view().raw()) + begin, dtype, shape,
                    device_);
}

void Arena::release(std::size_t mark) {
  require(mark <= top_, "arena '{}' released to {} above its top {}", label_, mark, top_);
  top_ = mark;
}

}  // namespace trireme
