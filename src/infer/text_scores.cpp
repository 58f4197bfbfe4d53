// Scores of texts: batches of equal lengths, and a pass for each.
// SPDX-License-Identifier: Apache-2.0
// Legend: B texts of a batch, S tokens that the model reads of each, T = B * S.
#include "infer/text_scores.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "base/device_memory.hpp"
#include "infer/stage_chain.hpp"
#include "io/sample_source.hpp"
#include "parallel/attention_core.hpp"

namespace trireme::infer {
namespace {

constexpr int lanes = 2;                  // batches on their way to the next stage
constexpr std::int64_t most_rows = 1024;  // of a batch that has more than one text

struct Batch {
  std::int64_t sequence = 0;         // S
  std::vector<std::size_t> numbers;  // of the B texts
  std::int64_t rows() const {
    return sequence * static_cast<std::int64_t>(numbers.size());
  }
};

// The longest first: who lacks memory learns it at once.
std::vector<Batch> batches_of(const std::vector<ScoredText>& texts) {
  std::map<std::int64_t, std::vector<std::size_t>, std::greater<>> by_length;
  for (std::size_t i = 0; i < texts.size(); ++i)
    by_length[static_cast<std::int64_t>(texts[i].tokens.size()) - 1].push_back(i);
  std::vector<Batch> batches;
  for (const auto& [length, numbers] : by_length) {
    const auto most =
        static_cast<std::size_t>(std::max<std::int64_t>(most_rows / length, 1));
    for (std::size_t i = 0; i < numbers.size(); i += most) {
      const std::size_t end = std::min(i + most, numbers.size());
      const auto from = numbers.begin();
      batches.push_back({length,
                         {from + static_cast<std::ptrdiff_t>(i),
                          from + static_cast<std::ptrdiff_t>(end)}});
    }
  }
  return batches;
}

std::int64_t most_rows_of(const std::vector<Batch>& batches) {
  std::int64_t most = 0;
  for (const Batch& batch : batches) most = std::max(most, batch.rows());
  return most;
}

// A pass over batches, one at a time, on memory for the largest of them.
class Scorer {
 public:
  Scorer(const LoadedModel& model, StageChain& chain, Device device,
         std::pair<std::size_t, std::size_t> bytes, std::int64_t rows)
      : model_(model),
        chain_(chain),
        stream_(device),
        saved_(device, bytes.first, MemoryClass::activations, "activations"),
        scratch_(device, bytes.second, MemoryClass::workspace, "scratch"),
        none_(in_place_),
        ids_(device, DType::i32, {3 * rows}, MemoryClass::data, "token ids"),
        loss_(device, DType::f64, {1}, MemoryClass::workspace, "loss"),
        on_host_(static_cast<std::size_t>(device.is_meta() ? 0 : 4 * rows)) {}

  // The scores of a batch's texts, on ranks of the last stage.
  std::vector<double> run(const Batch& batch, const std::vector<ScoredText>& texts,
                          int lane) {
    const std::int64_t T = batch.rows();
    if (stream_.device().is_meta()) return run(batch, lane, TensorView());
    upload(batch, texts);
    return run(batch, lane, {on_host_.data() + 3 * T, DType::i32, {T}});
  }
  std::pair<std::size_t, std::size_t> peak_bytes() const {
    return {saved_.peak_bytes(), scratch_.peak_bytes()};
  }
  Stream& stream() { return stream_; }

 private:
  // Inputs, targets and positions to the device; on the host, which text each target is
  // of.
  void upload(const Batch& batch, const std::vector<ScoredText>& texts) {
    const auto T = static_cast<std::size_t>(batch.rows());
    const auto S = static_cast<std::size_t>(batch.sequence);
    for (std::size_t b = 0; b < batch.numbers.size(); ++b) {
      const ScoredText& text = texts[batch.numbers[b]];
      for (std::size_t s = 0; s < S; ++s) {
        const std::size_t t = b * S + s;
        const bool scored = static_cast<std::int64_t>(s) + 1 >= text.first;
        on_host_[t] = text.tokens[s];
        on_host_[T + t] = scored ? text.tokens[s + 1] : io::ignore_index;
        on_host_[2 * T + t] = static_cast<std::int32_t>(s);
        on_host_[3 * T + t] = scored ? static_cast<std::int32_t>(b) : -1;
      }
    }
    const auto rows = static_cast<std::int64_t>(3 * T);
    copy_bytes(stream_, TensorView(on_host_.data(), DType::i32, {rows}),
               ids_.view().rows(0, rows));
  }
  std::vector<double> run(const Batch& batch, int lane, const TensorView& numbers_T) {
    const auto B = static_cast<std::int64_t>(batch.numbers.size());
    const std::int64_t T = batch.rows();
    const TensorView ids = ids_.view();
    saved_.reset();
    scratch_.reset();
    std::vector<double> scores;
    nn::Preferences each_text;
    each_text.answers = {numbers_T, TensorView(nullptr, DType::f64, {B, 2})};
    each_text.log_probabilities = &scores;
    nn::Pass pass{stream_,       saved_,     scratch_,
                  none_,         attention_, {B, batch.sequence, ids.rows(2 * T, T)},
                  {loss_.view()}};
    pass.microbatch.whole_sequences = false;
    pass.microbatch.text_length = batch.sequence;
    pass.losses.preferences = &each_text;
    auto views = model_.stage().make_saved();
    views.output_TD = chain_.forward(pass, ids.rows(0, T), lane);
    if (model_.part().last()) model_.stage().evaluate(pass, ids.rows(T, T), views);
    return scores;
  }

  const LoadedModel& model_;
  StageChain& chain_;
  Stream stream_;
  Arena saved_, scratch_;
  parallel::LocalAttention attention_;
  WeightAccess in_place_;
  nn::WeightGradients none_;
  Buffer ids_;   // inputs, targets, positions
  Buffer loss_;  // which nobody reads
  std::vector<std::int32_t> on_host_;
};

// Bytes of the arenas: what lives through a batch, and scratch.
std::pair<std::size_t, std::size_t> measure(const LoadedModel& model, StageChain& chain,
                                            const std::vector<Batch>& batches) {
  const MeasuredPass without_weights(model);
  Scorer scorer(model, chain, Device::meta(), {0, 0}, most_rows_of(batches));
  std::int64_t before = -1;
  for (const Batch& batch : batches)  // the first of a length is the largest
    if (std::exchange(before, batch.sequence) != batch.sequence) scorer.run(batch, {}, 0);
  return scorer.peak_bytes();
}

}  // namespace

std::int64_t scoring_bytes(const LoadedModel& model, comm::Group& pipeline,
                           const std::vector<ScoredText>& texts) {
  const std::vector<Batch> batches = batches_of(texts);
  StageChain chain(model, pipeline, most_rows_of(batches), lanes);
  const auto [saved, scratch] = measure(model, chain, batches);
  return static_cast<std::int64_t>(saved + scratch);
}

std::vector<double> score_texts(const LoadedModel& model, comm::Group& pipeline,
                                const std::vector<ScoredText>& texts,
                                const std::function<void(std::size_t)>& watch) {
  const std::vector<Batch> batches = batches_of(texts);
  const std::int64_t rows = most_rows_of(batches);
  StageChain chain(model, pipeline, rows, lanes);
  const auto bytes = measure(model, chain, batches);
  Scorer scorer(model, chain, model.device(), bytes, rows);
  std::vector<double> scores(texts.size());
  std::size_t done = 0;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const auto& numbers = batches[i].numbers;
    const std::vector<double> own =
        scorer.run(batches[i], texts, static_cast<int>(i % lanes));
    for (std::size_t b = 0; b < own.size(); ++b) scores[numbers[b]] = own[b];
    done += numbers.size();
    if (watch) watch(done);
  }
  const auto N = static_cast<std::int64_t>(scores.size());
  const Buffer all(model.device(), DType::f64, {N}, MemoryClass::workspace, "scores");
  const TensorView host_N(scores.data(), DType::f64, {N});
  if (model.part().last()) {
    copy_bytes(scorer.stream(), host_N, all.view());
    chain.send_back(scorer.stream(), all.view(), 0);
  } else {
    chain.receive_back(scorer.stream(), all.view());
  }
  chain.finish();
  copy_bytes(scorer.stream(), all.view(), host_N);
  return scores;
}

}  // namespace trireme::infer
