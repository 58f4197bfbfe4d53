// The job of simulated ranks: its fibers, and the heap that each of them holds.
// SPDX-License-Identifier: Apache-2.0
#include "scale/fake_mpi.hpp"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <new>

#include "scale/fake_state.hpp"

namespace trireme::scale {
namespace {

constexpr std::size_t stack_bytes = std::size_t{256} << 10;

void body() {
  const int rank = current;
  (*job->work)(rank);
  owner = -1;
  job->fibers[static_cast<std::size_t>(rank)].runs = false;
  sleep();
}

void start(int rank) {
  Fiber& fiber = job->fibers[static_cast<std::size_t>(rank)];
  getcontext(&fiber.context);
  if (fiber.stack == nullptr)
    fiber.stack = mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  fiber.context.uc_stack.ss_sp = fiber.stack;
  fiber.context.uc_stack.ss_size = stack_bytes;
  makecontext(&fiber.context, body, 0);
  fiber.runs = true;
  wake(rank);
}

}  // namespace

FakeJob::FakeJob(int ranks, int ranks_on_node)
    : ranks_on_node_(ranks_on_node), counts_(static_cast<std::size_t>(ranks)) {
  job = new Job;
  job->ranks = ranks;
  job->on_node = ranks_on_node;
  job->counted = this;
  job->fibers.resize(counts_.size());
  job->calls.resize(counts_.size());
  job->duplicates.resize(counts_.size());
}

FakeJob::~FakeJob() {
  for (const Fiber& fiber : job->fibers)
    if (fiber.stack != nullptr) munmap(fiber.stack, stack_bytes);
  delete job;
  job = nullptr;
}

void FakeJob::reset() {
  for (Counts& counts : counts_) {
    const std::int64_t held = counts.held;
    counts = {};
    counts.held = counts.held_before = held;
  }
}

void FakeJob::run(const std::function<void(int)>& work) {
  job->work = &work;
  for (int rank = 0; rank < ranks(); ++rank) start(rank);
  while (!job->ready.empty()) {
    current = job->ready.front();
    job->ready.pop_front();
    Fiber& fiber = job->fibers[static_cast<std::size_t>(current)];
    fiber.ready = false;
    owner = current;
    swapcontext(&job->scheduler, &fiber.context);
    owner = current = -1;
  }
  const auto stuck = std::find_if(job->fibers.begin(), job->fibers.end(),
                                  [](const Fiber& fiber) { return fiber.runs; });
  if (stuck == job->fibers.end()) return;
  std::fprintf(stderr, "rank %d of %d waits for ever\n",
               static_cast<int>(stuck - job->fibers.begin()), ranks());
  std::_Exit(1);
}

namespace {

// Bytes in front of a block, which say whose it is.
struct alignas(16) Owner {
  std::int64_t rank, bytes;
};

void* allocate(std::size_t bytes) {
  auto* const block = static_cast<Owner*>(std::malloc(bytes + sizeof(Owner)));
  if (block == nullptr) throw std::bad_alloc();
  *block = {owner, static_cast<std::int64_t>(bytes)};
  if (owner >= 0) {
    Counts& counts = job->counted->of(owner);
    counts.held += block->bytes;
    counts.peak = std::max(counts.peak, counts.held - counts.held_before);
  }
  return block + 1;
}

void release(void* memory) {
  if (memory == nullptr) return;
  auto* const block = static_cast<Owner*>(memory) - 1;
  if (block->rank >= 0 && job != nullptr && block->rank < job->ranks)
    job->counted->of(static_cast<int>(block->rank)).held -= block->bytes;
  std::free(block);
}

}  // namespace
}  // namespace trireme::scale

void* operator new(std::size_t bytes) { return trireme::scale::allocate(bytes); }
void* operator new[](std::size_t bytes) { return trireme::scale::allocate(bytes); }
void operator delete(void* memory) noexcept { trireme::scale::release(memory); }
void operator delete[](void* memory) noexcept { trireme::scale::release(memory); }
void operator delete(void* memory, std::size_t) noexcept {
  trireme::scale::release(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  trireme::scale::release(memory);
}
