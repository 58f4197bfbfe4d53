// ActionGraphs: recording and launching.
// SPDX-License-Identifier: Apache-2.0
#include "engine/action_graphs.hpp"

#include "kernels/runtime/working_memory.hpp"

namespace trireme::engine {
namespace {

// Notes which gradients are complete: a reduction over replicas that starts then is not
// part of the recording. Gathers of sharded weights, and reductions of sharded gradients,
// are.
class ReadyLog final : public WeightAccess {
 public:
  ReadyLog(WeightAccess& owner, std::vector<Param*>& params)
      : owner_(owner), params_(params) {}
  void fetch(int module, Direction direction) override {
    owner_.fetch(module, direction);
  }
  void release(int module) override { owner_.release(module); }
  void open_gradients(int module) override { owner_.open_gradients(module); }
  void close_gradients(int module) override { owner_.close_gradients(module); }
  void ready(Param& param) override { params_.push_back(&param); }

 private:
  WeightAccess& owner_;
  std::vector<Param*>& params_;
};

}  // namespace

// Another user of the kernels' working memory (an evaluation, say) may have needed more
// of it: recorded addresses are those of the old one.
void ActionGraphs::forget_what_moved() {
  const std::int64_t moves = kernels::working_memory_moves(device_);
  if (moves != moves_) forget();
  moves_ = moves;
}

bool ActionGraphs::begin_step(bool others, const std::function<bool(bool)>& any) {
  together_ = true;
  singly_ = any(others || kernels::working_memory_moves(device_) != moves_);
  if (singly_) forget();
  moves_ = kernels::working_memory_moves(device_);
  return singly_;
}

void ActionGraphs::run(Stream& stream, const Key& key, WeightAccess& weights,
                       const Work& work) {
  if (!together_) forget_what_moved();
  const auto [found, first] = recordings_.try_emplace(key);
  if (first || singly_) return work(weights);
  require(kernels::working_memory_moves(device_) == moves_,
          "the working memory of kernels moved in a step that launches graphs");
  Recording& recording = found->second;
  if (!recording.graph) {
    ReadyLog log(weights, recording.ready);
    const comm::RecordingScope scope(recording.calls);
    recording.graph = Graph::record(stream, [&] { work(log); });
    ++recorded_;
  }
  recording.graph->launch(stream);
  recording.calls.replay(stream);
  ++launched_;
  for (Param* param : recording.ready) weights.ready(*param);
}

}  // namespace trireme::engine
