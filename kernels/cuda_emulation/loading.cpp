// When kernels are loaded onto the device.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda_emulation/loading.hpp"

#include <cstdlib>
#include <string>
#include <unordered_set>

#include "cuda_emulation/control.hpp"
#include "kernels/cuda_emulation/api_call.hpp"
#include "kernels/cuda_emulation/fail.hpp"
#include "kernels/cuda_emulation/streams.hpp"

namespace trireme::cuda_emulation {
namespace {

bool lazy_from_environment() {
  const char* text = std::getenv("TRIREME_EMULATION_LOADING");
  const std::string word = text == nullptr ? "" : text;
  if (word.empty() || word == "loaded") return false;
  if (word == "lazy") return true;
  fail("TRIREME_EMULATION_LOADING = \"" + word + "\"; use lazy or loaded");
}

struct Loading {
  bool waits = lazy_from_environment();
  bool eager = false;  // what the program was linked with is there from the start
  std::unordered_set<const void*> kernels;
  std::unordered_set<std::uint64_t> of_libraries;
};

bool says_eager() {
  const char* text = std::getenv("CUDA_MODULE_LOADING");
  return text != nullptr && std::string(text) == "EAGER";
}

Loading& loading() {
  static Loading& state = *new Loading{.waits = lazy_from_environment(),
                                       .eager = says_eager(),
                                       .kernels = {},
                                       .of_libraries = {}};
  return state;
}

}  // namespace

void note_first_call() { loading(); }

void load_kernel(const void* function) {
  if (!loading().waits || loading().eager) return;
  if (loading().kernels.insert(function).second) Streams::get().run_all();
}

void set_lazy_loading(bool lazy) {
  const std::lock_guard lock(api_mutex());
  loading().waits = lazy;
  loading().eager = !lazy;
}

void forget_loaded_kernels() {
  const std::lock_guard lock(api_mutex());
  loading().kernels.clear();
  loading().of_libraries.clear();
}

void load_library_kernel(std::uint64_t which) {
  const std::lock_guard lock(api_mutex());
  note_first_call();
  if (!loading().waits) return;
  if (loading().of_libraries.insert(which).second) Streams::get().run_all();
}

}  // namespace trireme::cuda_emulation
