// Operations, places and kernels in words, and the messages that need them.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda_emulation/names.hpp"

#include <cxxabi.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

#include "kernels/cuda_emulation/block.hpp"
#include "kernels/cuda_emulation/fail.hpp"

namespace trireme::cuda_emulation {
namespace {

std::string hexadecimal(unsigned long long value) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%llx", value);
  return text;
}

const char* name(WarpOperation operation) {
  switch (operation) {
    case WarpOperation::sync: return "__syncwarp";
    case WarpOperation::shfl: return "__shfl_sync";
    case WarpOperation::shfl_up: return "__shfl_up_sync";
    case WarpOperation::shfl_down: return "__shfl_down_sync";
    case WarpOperation::shfl_xor: return "__shfl_xor_sync";
    case WarpOperation::ballot: return "__ballot_sync";
    case WarpOperation::any: return "__any_sync";
    case WarpOperation::all: return "__all_sync";
    case WarpOperation::reduce_add: return "__reduce_add_sync";
    case WarpOperation::reduce_min: return "__reduce_min_sync";
    case WarpOperation::reduce_max: return "__reduce_max_sync";
    case WarpOperation::reduce_and: return "__reduce_and_sync";
    case WarpOperation::reduce_or: return "__reduce_or_sync";
    case WarpOperation::reduce_xor: return "__reduce_xor_sync";
    case WarpOperation::match_any: return "__match_any_sync";
    case WarpOperation::ldmatrix: return "ldmatrix";
    case WarpOperation::mma: return "mma";
  }
  return "?";
}

}  // namespace

std::string describe(WarpOperation operation, unsigned mask) {
  return std::string(name(operation)) + " with mask " + hexadecimal(mask);
}

std::string describe(BlockOperation operation) {
  switch (operation) {
    case BlockOperation::sync: return "__syncthreads";
    case BlockOperation::sync_or: return "__syncthreads_or";
    case BlockOperation::sync_and: return "__syncthreads_and";
    case BlockOperation::sync_count: return "__syncthreads_count";
  }
  return "?";
}

std::string describe(const Source& where) {
  return std::string(where.file_name()) + ":" + std::to_string(where.line()) + " (" +
         where.function_name() + ")";
}

std::string describe(uint3 index) {
  return "(" + std::to_string(index.x) + ", " + std::to_string(index.y) + ", " +
         std::to_string(index.z) + ")";
}

// Known where the program exports its symbols, and for kernels in shared libraries.
std::string function_name(const void* function) {
  Dl_info info{};
  if (::dladdr(function, &info) == 0 || info.dli_saddr != function) {
    return "at " + hexadecimal(reinterpret_cast<unsigned long long>(function));
  }
  int status = 0;
  char* demangled = abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status);
  const std::string text = status == 0 ? demangled : info.dli_sname;
  std::free(demangled);
  return text;
}

std::string Engine::place() const {
  return "kernel " + function_name(kernel_->function) + ", block " + describe(blockIdx) +
         " of grid " + describe(gridDim) + ", thread " + describe(current_->index) +
         " of block " + describe(blockDim) + ", warp " + std::to_string(current_->warp) +
         ", lane " + std::to_string(current_->lane);
}

void Engine::fail_here(const std::string& message, const Source& where) {
  fail(message + "\n  at " + describe(where) + "\n  in " + place());
}

std::string Engine::lane_state(unsigned w, unsigned lane) const {
  const Warp& warp = warp_[w];
  const unsigned bit = 1u << lane;
  const std::string who = "warp " + std::to_string(w) + " lane " + std::to_string(lane);
  if ((warp.at_barrier & bit) != 0) {
    return who + " waits at " + describe(barrier_operation_) + ", " +
           describe(warp.where[lane]);
  }
  for (int i = 0; i < warp.meetings; ++i) {
    const Meeting& meeting = warp.meeting[static_cast<std::size_t>(i)];
    if ((meeting.arrived & bit) == 0) continue;
    return who + " waits at " + describe(meeting.operation, meeting.mask) + ", " +
           describe(warp.where[lane]);
  }
  return who + " runs";
}

void Engine::fail_disagreement(unsigned lane, const std::string& operation,
                               const Source& where) {
  fail_here("lanes of a warp that wait for each other disagree: this lane is at " +
                operation + ", but " + lane_state(current_->warp, lane),
            where);
}

void Engine::fail_deadlock() {
  std::string message = "deadlock: every thread of the block waits\n  in " + place();
  for (unsigned w = 0; w * 32 < threads_; ++w) {
    std::string before;
    for (unsigned lane = 0; lane < 32; ++lane) {
      if ((warp_[w].alive >> lane & 1u) == 0) continue;
      const std::string state = lane_state(w, lane);
      const std::string rest = state.substr(state.find(" waits"));
      if (rest != before)
        message += "\n  " + state;  // the first of those that wait alike
      before = rest;
    }
  }
  fail(message);
}

}  // namespace trireme::cuda_emulation
