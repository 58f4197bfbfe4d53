// Finds that all processes that share work wait for each other.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda_emulation/stall.hpp"

#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "kernels/cuda_emulation/fail.hpp"
#include "kernels/cuda_emulation/shared_pages.hpp"

namespace trireme::cuda_emulation {
namespace {

constexpr std::uint64_t enough_looks = 3000;
constexpr std::uint64_t looks_between = 64;  // of others' counters
constexpr std::size_t most_peers = 64, text_bytes = 480;

struct Peer {
  int process, file;
};

struct Page {
  std::atomic<std::uint64_t> done, vain_looks;
  std::atomic<std::uint32_t> peers;  // of `peer` that are filled in
  Peer peer[most_peers];
  char waiting[text_bytes];  // what this process waits for
};

struct Counters {
  std::uint64_t done, looks;
};

// All state of this process. One thread at a time, but for the counters themselves.
class Stall {
 public:
  static Stall& get() {
    static Stall& stall = *new Stall;
    return stall;
  }

  Page& page() { return *page_; }
  StallPage name() const { return {::getpid(), file_}; }
  void add(const StallPage& other);
  void look();
  std::string (*describe)() = nullptr;

 private:
  Stall() {
    file_ = make_shared_pages("stall", sizeof(Page));
    page_ = static_cast<Page*>(map_shared_pages(::getpid(), file_, sizeof(Page)));
    pages_[::getpid()] = page_;
  }
  void learn_peers();

  std::mutex mutex_;
  int file_ = -1;
  Page* page_ = nullptr;
  std::map<int, Page*> pages_;         // of every process, this one's too
  std::map<int, Counters> last_seen_;  // when something had changed last
};

void Stall::add(const StallPage& other) {
  const std::lock_guard lock(mutex_);
  if (pages_.contains(other.process)) return;
  pages_[other.process] =
      static_cast<Page*>(map_shared_pages(other.process, other.file, sizeof(Page)));
  last_seen_.clear();
  const std::uint32_t at = page_->peers.load();
  if (at == most_peers) fail("more processes share work than the emulation follows");
  page_->peer[at] = {other.process, other.file};
  page_->peers.store(at + 1);
}

// Who works with those that this process works with counts, too.
void Stall::learn_peers() {
  const std::map<int, Page*> known = pages_;
  for (const auto& [process, page] : known) {
    const std::uint32_t peers = page->peers.load();
    for (std::uint32_t i = 0; i < peers; ++i) {
      const Peer peer = page->peer[i];
      if (pages_.contains(peer.process)) continue;
      void* const memory = try_map_shared_pages(peer.process, peer.file, sizeof(Page));
      if (memory == nullptr) continue;  // it has ended, in good order
      pages_[peer.process] = static_cast<Page*>(memory);
      last_seen_.clear();
    }
  }
}

void Stall::look() {
  const std::lock_guard lock(mutex_);
  learn_peers();
  if (pages_.size() < 2) return;  // alone: nobody could ever end the wait, or it is short
  std::map<int, Counters> now;
  bool changed = last_seen_.empty(), all_looked = true;
  for (const auto& [process, page] : pages_) {
    now[process] = {page->done.load(), page->vain_looks.load()};
    if (changed) continue;
    changed = now[process].done != last_seen_[process].done;
    all_looked =
        all_looked && now[process].looks >= last_seen_[process].looks + enough_looks;
  }
  if (changed) {
    last_seen_ = std::move(now);
    return;
  }
  if (describe != nullptr) {
    const std::string text = describe();
    const std::size_t bytes = std::min(text.size(), text_bytes - 1);
    std::memcpy(page_->waiting, text.data(), bytes);
    page_->waiting[bytes] = '\0';
  }
  if (!all_looked) return;
  std::string message = "deadlock: every process waits, and none can go on";
  for (const auto& [process, page] : pages_)
    message += "\n  process " + std::to_string(process) + ": " +
               (page->waiting[0] == '\0' ? "its host waits" : page->waiting);
  fail(message);
}

}  // namespace

void note_progress() { ++Stall::get().page().done; }

void note_vain_look() {
  Stall& stall = Stall::get();
  const std::uint64_t looks = ++stall.page().vain_looks;
  if (looks % looks_between == 0) stall.look();
  ::sched_yield();
}

StallPage own_stall_page() { return Stall::get().name(); }
void add_stall_page(StallPage page) { Stall::get().add(page); }
void describe_waiting(std::string (*describe)()) { Stall::get().describe = describe; }

}  // namespace trireme::cuda_emulation
