// Evaluation: loss of a model on windows of data.
// SPDX-License-Identifier: Apache-2.0
#include "infer/evaluation.hpp"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "base/device_memory.hpp"
#include "infer/stage_chain.hpp"
#include "parallel/attention_core.hpp"

namespace trireme::infer {
namespace {

constexpr int lanes = 2;  // windows on their way to the next stage

// Forward and loss of one window on the arenas of `pass`.
void run_window(const LoadedModel& model, StageChain& chain, nn::Pass& pass,
                const TensorView& inputs_T, const TensorView& targets_T, int lane,
                const nn::Head::EachChunk& each) {
  pass.saved.reset();
  pass.scratch.reset();
  auto views = model.stage().make_saved();
  views.output_TD = chain.forward(pass, inputs_T, lane);
  if (model.part().last()) model.stage().evaluate(pass, targets_T, views, each);
}

bool is_token(std::int32_t id) { return id >= 0; }

// Targets of a window that its source does not count.
void leave_out(const io::SampleMarks& marks, std::vector<std::int32_t>& targets) {
  for (std::size_t t = 0; t < targets.size(); ++t) {
    const bool unlearned = !marks.no_target.empty() && marks.no_target[t + 1] != 0;
    const bool first =
        !marks.starts.empty() && marks.starts[t + 1] == static_cast<std::int64_t>(t + 1);
    if (unlearned || first) targets[t] = io::ignore_index;
  }
}

// Bytes of the arenas of a window: what lives through it, and scratch.
std::pair<std::size_t, std::size_t> measure(const LoadedModel& model, StageChain& chain) {
  const MeasuredPass without_weights(model);
  const std::int64_t S = model.config().sequence;
  parallel::LocalAttention attention;
  WeightAccess in_place;
  nn::WeightGradients none(in_place);
  Stream stream(Device::meta());
  Arena saved(Device::meta(), 0, MemoryClass::activations, "activations");
  Arena scratch(Device::meta(), 0, MemoryClass::workspace, "scratch");
  const TensorView ids_T(nullptr, DType::i32, {S}, Device::meta());
  const TensorView loss_1(nullptr, DType::f64, {1}, Device::meta());
  nn::Pass pass{stream, saved, scratch, none, attention, {1, S, ids_T}, {loss_1}};
  pass.microbatch.text_length = S;
  run_window(model, chain, pass, ids_T, ids_T, 0, {});
  return {saved.peak_bytes(), scratch.peak_bytes()};
}

}  // namespace

std::int64_t evaluation_bytes(const LoadedModel& model, comm::Group& pipeline) {
  StageChain chain(model, pipeline, model.config().sequence, lanes);
  const auto [saved, scratch] = measure(model, chain);
  return static_cast<std::int64_t>(saved + scratch);
}

Evaluation evaluate(const LoadedModel& model, comm::Group& pipeline,
                    const io::SampleSource& source, const EachLogits& each,
                    const std::function<void(std::int64_t)>& after) {
  const std::int64_t S = model.config().sequence;
  StageChain chain(model, pipeline, S, lanes);
  const auto [saved_bytes, scratch_bytes] = measure(model, chain);
  parallel::LocalAttention attention;
  WeightAccess in_place;
  nn::WeightGradients none(in_place);
  const Device device = model.device();
  Stream stream(device);
  Arena saved(device, saved_bytes, MemoryClass::activations, "activations");
  Arena scratch(device, scratch_bytes, MemoryClass::workspace, "scratch");
  const Buffer ids(device, DType::i32, {3 * S}, MemoryClass::data, "token ids");
  const Buffer loss(device, DType::f64, {1}, MemoryClass::workspace, "loss");
  const TensorView inputs_T = ids.view().rows(0, S), targets_T = ids.view().rows(S, S);
  const TensorView positions_T = ids.view().rows(2 * S, S);
  std::vector<std::int32_t> on_host(static_cast<std::size_t>(S));
  const TensorView host_T(on_host.data(), DType::i32, {S});
  std::iota(on_host.begin(), on_host.end(), 0);
  copy_bytes(stream, host_T, positions_T);
  nn::Pass pass{stream,       saved, scratch, none, attention, {1, S, positions_T},
                {loss.view()}};
  pass.microbatch.text_length = S;
  std::vector<std::int32_t> window(static_cast<std::size_t>(S) + 1);
  Evaluation result;
  for (std::int64_t w = 0; w < source.windows(); ++w) {
    source.sample(w, window);
    std::transform(window.begin(), window.end() - 1, on_host.begin(),
                   [](std::int32_t id) { return std::max(id, 0); });
    copy_bytes(stream, host_T, inputs_T);
    std::copy(window.begin() + 1, window.end(), on_host.begin());
    const std::int64_t real = std::count_if(on_host.begin(), on_host.end(), is_token);
    leave_out(source.marks(w), on_host);
    copy_bytes(stream, host_T, targets_T);
    const auto chunk = [&](std::int64_t first, const TensorView& logits_CV) {
      const std::int64_t rows = std::min(logits_CV.dim(0), real - first);
      if (rows > 0) each(w * S + first, logits_CV.rows(0, rows));
    };
    run_window(model, chain, pass, inputs_T, targets_T, static_cast<int>(w % lanes),
               each ? nn::Head::EachChunk(chunk) : nn::Head::EachChunk());
    result.tokens += std::count_if(on_host.begin(), on_host.end(), is_token);
    if (after) after(w + 1);
  }
  if (model.part().last())
    chain.send_back(stream, loss.view(), 0);
  else
    chain.receive_back(stream, loss.view());
  chain.finish();
  copy_bytes(stream, loss.view(), TensorView(&result.loss_sum, DType::f64, {1}));
  return result;
}

}  // namespace trireme::infer
