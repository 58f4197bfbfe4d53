// Evaluation.
// SPDX-License-Identifier: Apache-2.0
#include "infer/evaluation.hpp"

#include <algorithm>
#include <vector>

#include "parallel/attention_core.hpp"

namespace trireme::infer {
namespace {

// Forward and loss of one window on the arenas of `pass`.
double run_window(const LoadedModel& model, nn::Pass& pass, const TensorView& inputs_T,
                  const TensorView& targets_T, const nn::Head::EachChunk& each) {
  pass.saved.reset();
  pass.scratch.reset();
  auto views = model.stage().make_saved();
  model.stage().forward(pass, inputs_T, views);
  return model.stage().evaluate(pass, targets_T, views, each);
}

}  // namespace

Evaluation evaluate(const LoadedModel& model, const io::SampleSource& source,
                    const EachLogits& each) {
  const std::int64_t S = model.config().sequence;
  parallel::LocalAttention attention;
  WeightAccess in_place;
  nn::WeightGradients none(in_place);
  Stream meta_stream(Device::meta());
  Arena meta_saved(Device::meta(), 0, MemoryClass::activations, "activations");
  Arena meta_scratch(Device::meta(), 0, MemoryClass::workspace, "scratch");
  const TensorView meta_T(nullptr, DType::i32, {S}, Device::meta());
  nn::Pass measured{meta_stream, meta_saved, meta_scratch, none, attention, 1, S, meta_T};
  run_window(model, measured, meta_T, meta_T, {});

  Stream stream;
  Arena saved(Device::host(), meta_saved.peak_bytes(), MemoryClass::activations,
              "activations");
  Arena scratch(Device::host(), meta_scratch.peak_bytes(), MemoryClass::workspace,
                "scratch");
  const Buffer ids(Device::host(), DType::i32, {3 * S}, MemoryClass::data, "token ids");
  const TensorView inputs_T = ids.view().rows(0, S), targets_T = ids.view().rows(S, S);
  const TensorView positions_T = ids.view().rows(2 * S, S);
  for (std::int64_t t = 0; t < S; ++t) {
    positions_T.data<std::int32_t>()[t] = static_cast<std::int32_t>(t);
  }
  nn::Pass pass{stream, saved, scratch, none, attention, 1, S, positions_T};
  std::vector<std::int32_t> window(static_cast<std::size_t>(S) + 1);
  Evaluation result;
  for (std::int64_t w = 0; w < source.windows(); ++w) {
    source.sample(w, window);
    for (std::int64_t t = 0; t < S; ++t) {
      const auto at = static_cast<std::size_t>(t);
      inputs_T.data<std::int32_t>()[t] = std::max(window[at], 0);
      targets_T.data<std::int32_t>()[t] = window[at + 1];
    }
    const std::int64_t real = std::count_if(window.begin() + 1, window.end(),
                                            [](std::int32_t id) { return id >= 0; });
    const auto chunk = [&](std::int64_t first, const TensorView& logits_CV) {
      const std::int64_t rows = std::min(logits_CV.dim(0), real - first);
      if (rows > 0) each(w * S + first, logits_CV.rows(0, rows));
    };
    result.loss_sum +=
        run_window(model, pass, inputs_T, targets_T,
                   each ? nn::Head::EachChunk(chunk) : nn::Head::EachChunk());
    result.tokens += real;
  }
  return result;
}

}  // namespace trireme::infer
