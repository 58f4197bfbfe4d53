// ActionGraphs: recording and launching.
// SPDX-License-Identifier: Apache-2.0
#include "engine/action_graphs.hpp"

#include "kernels/runtime/working_memory.hpp"

namespace trireme::engine {
namespace {

// Notes which gradients are complete: a reduction over replicas that starts then is part
// of the recording only if `reduces`. Gathers of sharded weights, and reductions of
// sharded gradients, always are.
class ReadyLog final : public WeightAccess {
 public:
  ReadyLog(WeightAccess& owner, std::vector<Param*>& params, bool reduces)
      : owner_(owner), params_(params), reduces_(reduces) {}
  void fetch(int module, Direction direction) override {
    owner_.fetch(module, direction);
  }
  void release(int module) override { owner_.release(module); }
  void open_gradients(int module) override { owner_.open_gradients(module); }
  void close_gradients(int module) override { owner_.close_gradients(module); }
  void ready(Param& param) override {
    params_.push_back(&param);
    if (reduces_) owner_.ready(param);
  }

 private:
  WeightAccess& owner_;
  std::vector<Param*>& params_;
  bool reduces_;
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
                       const Work& work, const Launched& launched) {
  if (!together_) forget_what_moved();
  const auto [found, first] = recordings_.try_emplace(key);
  if (first || singly_) return work(weights);
  require(kernels::working_memory_moves(device_) == moves_,
          "the working memory of kernels moved in a step that launches graphs");
  Recording& recording = found->second;
  const bool reduces = launched != nullptr, is_new = !recording.graph;
  if (is_new) {
    ReadyLog log(weights, recording.ready, reduces);
    const comm::RecordingScope scope(recording.calls);
    recording.graph = Graph::record(stream, [&] { work(log); });
    ++recorded_;
  }
  recording.graph->launch(stream);
  recording.calls.replay(stream);
  ++launched_;
  if (reduces) {
    if (!is_new) launched(recording.ready);
    return;
  }
  for (Param* param : recording.ready) weights.ready(*param);
}

}  // namespace trireme::engine
