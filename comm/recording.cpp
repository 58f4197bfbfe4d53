// Recorded collectives: counted again with each launch.
// SPDX-License-Identifier: Apache-2.0
#include "comm/recording.hpp"

#include <utility>

namespace trireme::comm {
namespace {

thread_local RecordedCalls* current = nullptr;

}  // namespace

void RecordedCalls::replay(Stream& stream) const {
  std::vector<std::pair<RecordedWork*, std::vector<std::int64_t>>> of_work;
  for (const Call& call : calls_) {
    auto found = of_work.begin();
    while (found != of_work.end() && found->first != call.work) ++found;
    if (found == of_work.end()) found = of_work.insert(found, {call.work, {}});
    found->second.push_back(call.enter());
  }
  for (auto& [work, traces] : of_work) work->launched(stream, std::move(traces));
}

RecordingScope::RecordingScope(RecordedCalls& calls) { current = &calls; }
RecordingScope::~RecordingScope() { current = nullptr; }

RecordedCalls* recorded_calls() { return current; }

}  // namespace trireme::comm
