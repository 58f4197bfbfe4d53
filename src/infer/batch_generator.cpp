// BatchGenerator: steps of lanes over the stages.
// SPDX-License-Identifier: Apache-2.0
#include "infer/batch_generator.hpp"

#include <algorithm>
#include <limits>

#include "base/device_memory.hpp"
#include "base/log.hpp"
#include "infer/cache_plan.hpp"
#include "infer/vocabulary_gather.hpp"
#include "kernels/embedding.hpp"
#include "kernels/gemm.hpp"
#include "kernels/runtime/working_memory.hpp"

namespace trireme::infer {
namespace {

// Products have independent rows while it lives.
class IndependentRows {
 public:
  IndependentRows() : before_(kernels::independent_rows()) {
    kernels::set_independent_rows(true);
  }
  ~IndependentRows() { kernels::set_independent_rows(before_); }
  IndependentRows(const IndependentRows&) = delete;
  IndependentRows& operator=(const IndependentRows&) = delete;

 private:
  bool before_;
};

// Numbers that a sample takes on its way back: the token, its log-probability, and pairs
// of the likeliest.
std::int64_t result_width(const std::vector<Generation>& generations) {
  std::int64_t most = 0;
  for (const Generation& one : generations) most = std::max(most, one.log_probabilities);
  return 2 + 2 * most;
}

LaneModel lane_model(const model::ModelConfig& model) {
  const auto& scaling = model.rope_scaling;
  const bool longrope = scaling.kind == kernels::RopeScalingKind::longrope;
  return {
      model.positions(), model.has_linear(),
      longrope || model.any_length() ? static_cast<std::int64_t>(scaling.original) : 0,
      model.any_length()};
}

}  // namespace

BatchGenerator::BatchGenerator(const LoadedModel& model, comm::Group& pipeline,
                               const BatchOptions& options,
                               const std::vector<Generation>& generations)
    : model_(model),
      options_(options),
      generations_(generations),
      width_(result_width(generations)),
      chain_(model, pipeline, options.step_tokens, model.part().stages),
      no_gradients_(in_place_),
      ids_(model.device(), DType::i32, {3 * options.step_tokens}, MemoryClass::data,
           "token ids") {
  plan_cache(pipeline);
  plan_memory();
}

void BatchGenerator::plan_cache(comm::Group& pipeline) {
  const int lanes = model_.part().stages;
  const CachePlan plan = plan_blocks(model_, pipeline, options_, generations_, lanes);
  groups_ = plan.groups;
  texts_ = plan.texts_of_lane * lanes;
  cache_ = std::make_unique<BlockCache>(model_, options_.cache, options_.block, groups_,
                                        texts_);
  attention_ = std::make_unique<PagedAttention>(*cache_);
  std::vector<std::int64_t> windows;
  for (const CacheGroup& group : groups_) windows.push_back(group.window);
  flights_.resize(static_cast<std::size_t>(lanes));
  for (int lane = 0; lane < lanes; ++lane) {
    std::vector<BlockPool> pools;
    for (const CacheGroup& group : groups_)
      pools.emplace_back(split_range(group.blocks, lanes, lane));
    const Range places{lane * plan.texts_of_lane, (lane + 1) * plan.texts_of_lane};
    lanes_.emplace_back(options_, lane_model(model_.config()), std::move(pools), windows,
                        places, generations_, queue_);
    flights_[static_cast<std::size_t>(lane)].results =
        Buffer(Device::host(), DType::f64, {plan.texts_of_lane, width_},
               MemoryClass::data, "sampled tokens");
  }
}

nn::Pass BatchGenerator::pass_of(Stream& stream, Arena& saved, Arena& scratch,
                                 std::int64_t rows) {
  const bool meta = stream.device().is_meta();
  const TensorView positions_T =
      meta ? TensorView(nullptr, DType::i32, {rows}, Device::meta())
           : ids_.view().rows(options_.step_tokens, rows);
  nn::Pass pass{stream,        saved,       scratch,
                no_gradients_, *attention_, {1, rows, positions_T}};
  pass.microbatch.whole_sequences = false;
  return pass;
}

// A step of all rows is measured on meta.
void BatchGenerator::plan_memory() {
  const MeasuredPass without_weights(model_);
  const kernels::WorkingMemoryCount of_kernels;
  const Device meta = Device::meta();
  Stream stream(meta);
  Arena saved(meta, 0, MemoryClass::activations, "saved");
  Arena scratch(meta, 0, MemoryClass::workspace, "scratch");
  const std::int64_t T = options_.step_tokens;
  nn::Pass pass = pass_of(stream, saved, scratch, T);
  const TensorView ids_T(nullptr, DType::i32, {T}, meta);
  const TensorView x_TD = chain_.forward(pass, ids_T, 0);
  if (model_.part().last()) {
    const std::int64_t R = std::min(T, texts_);
    scratch.take(model_.dtype(), {R, model_.config().hidden}, "sampled rows");
    plan_gather(model_, pass, model_.stage().logits(pass, x_TD.rows(0, R)));
  }
  kernel_bytes_ = kernels::working_memory_held(of_kernels.bytes()) +
                  kernels::product_working_memory();
  kernels::reserve_working_memory(model_.device(), of_kernels.bytes());
  constexpr std::size_t slack = 1 << 16;
  saved_ = std::make_unique<Arena>(model_.device(), saved.peak_bytes() + slack,
                                   MemoryClass::activations, "activations");
  scratch_ = std::make_unique<Arena>(model_.device(), scratch.peak_bytes() + slack,
                                     MemoryClass::workspace, "scratch");
}

std::int64_t BatchGenerator::samples(const InFlight& step) const {
  return std::count_if(step.pieces.begin(), step.pieces.end(),
                       [](const Lane::Piece& piece) { return piece.samples; });
}

void BatchGenerator::upload(Stream& stream, const InFlight& step) {
  std::vector<std::int32_t> tokens, positions, sampled;
  std::vector<TextPiece> pieces;
  std::int64_t row = 0;
  for (const Lane::Piece& piece : step.pieces) {
    const RunningText& text = *piece.text;
    TextPiece& here = pieces.emplace_back();
    here.rows = {row, row + piece.count};
    here.past = text.done;
    here.place = text.place;
    for (const auto& blocks : text.blocks) here.blocks.push_back(blocks.data());
    for (std::int64_t i = 0; i < piece.count; ++i, ++row) {
      const std::int64_t position = text.done + i;
      tokens.push_back(text.tokens[static_cast<std::size_t>(position)]);
      positions.push_back(static_cast<std::int32_t>(position));
    }
    if (piece.samples) sampled.push_back(static_cast<std::int32_t>(row - 1));
  }
  std::int64_t to = 0;
  for (auto* const ids : {&tokens, &positions, &sampled}) {
    const auto count = static_cast<std::int64_t>(ids->size());
    copy_bytes(stream, TensorView(ids->data(), DType::i32, {count}),
               ids_.view().rows(to, count));
    to += options_.step_tokens;
  }
  attention_->begin(stream, std::move(pieces));
}

TensorView BatchGenerator::sampled_rows(nn::Pass& pass, const InFlight& step,
                                        const TensorView& x_TD) {
  const std::int64_t R = samples(step);
  const TensorView rows_RD =
      scratch_->take(x_TD.dtype(), {R, x_TD.dim(1)}, "sampled rows");
  kernels::embedding(pass.stream, ids_.view().rows(2 * options_.step_tokens, R), x_TD, 0,
                     kernels::Accumulate::no, rows_RD);
  return rows_RD;
}

void BatchGenerator::sample(const InFlight& step, const std::vector<double>& logits) {
  const auto V = static_cast<std::size_t>(model_.config().vocabulary);
  double* to = step.results.view().data<double>();
  std::size_t next = 0;
  for (const Lane::Piece& piece : step.pieces) {
    if (!piece.samples) continue;
    const RunningText& text = *piece.text;
    const Generation& wanted = generations_[text.number];
    const std::span<const double> row(logits.data() + next++ * V, V);
    const std::int32_t token =
        Sampler(wanted.sampler)
            .choose(row, static_cast<std::int64_t>(text.tokens.size()), text.tokens);
    to[0] = token;
    if (wanted.log_probabilities >= 0) {
      const double sum = log_of_sum(row);
      to[1] = row[static_cast<std::size_t>(token)] - sum;
      double* pair = to + 2;
      for (const std::int32_t id : likeliest(row, wanted.log_probabilities)) {
        *pair++ = id;
        *pair++ = row[static_cast<std::size_t>(id)] - sum;
      }
    }
    to += width_;
  }
}

void BatchGenerator::start(Stream& stream, int lane) {
  InFlight& step = flights_[static_cast<std::size_t>(lane)];
  step.pieces = lanes_[static_cast<std::size_t>(lane)].plan();
  step.any = !step.pieces.empty();
  if (!step.any) return;
  upload(stream, step);
  std::int64_t rows = 0;
  for (const Lane::Piece& piece : step.pieces) rows += piece.count;
  saved_->reset();
  scratch_->reset();
  nn::Pass pass = pass_of(stream, *saved_, *scratch_, rows);
  pass.microbatch.text_length =
      lanes_[static_cast<std::size_t>(lane)].text_length(step.pieces);
  const TensorView x_TD = chain_.forward(pass, ids_.view().rows(0, rows), lane);
  if (!model_.part().last() || samples(step) == 0) return;
  const TensorView rows_RD = sampled_rows(pass, step, x_TD);
  gather_vocabulary(model_, pass, model_.stage().logits(pass, rows_RD), landing_,
                    logits_);
  chain_.finish_results(lane);  // step.results may still be on their way
  sample(step, logits_);
  if (model_.part().stages > 1)
    chain_.send_back(stream, step.results.view().rows(0, samples(step)), lane);
}

void BatchGenerator::finish(Stream& stream, int lane,
                            const std::function<void(std::size_t, Generated&&)>& done) {
  InFlight& step = flights_[static_cast<std::size_t>(lane)];
  if (!step.any) return;
  step.any = false;
  const std::int64_t R = samples(step);
  if (!model_.part().last() && R > 0)
    chain_.receive_back(stream, step.results.view().rows(0, R));
  std::vector<std::int32_t> tokens;
  std::vector<TokenProbability> probabilities;
  const double* from = step.results.view().data<double>();
  for (const Lane::Piece& piece : step.pieces) {
    const auto prompt = generations_[piece.text->number].prompt.size();
    if (static_cast<std::size_t>(piece.text->done) < prompt)
      progress_.prompt_tokens += piece.count;
    if (!piece.samples) continue;
    ++progress_.new_tokens;
    tokens.push_back(static_cast<std::int32_t>(from[0]));
    TokenProbability& one = probabilities.emplace_back();
    one.chosen = from[1];
    const std::int64_t likeliest = generations_[piece.text->number].log_probabilities;
    for (std::int64_t i = 0; i < std::min(likeliest, model_.config().vocabulary); ++i)
      one.likeliest.emplace_back(static_cast<std::int32_t>(from[2 + 2 * i]),
                                 from[3 + 2 * i]);
    from += width_;
  }
  ++progress_.steps;
  lanes_[static_cast<std::size_t>(lane)].take_in(step.pieces, tokens, probabilities,
                                                 done);
}

void BatchGenerator::run(const std::vector<std::size_t>& numbers,
                         const std::function<void(std::size_t, Generated&&)>& done,
                         const std::function<void(const BatchProgress&)>& watch) {
  const IndependentRows scope;
  queue_.assign(numbers.begin(), numbers.end());
  progress_ = {};
  Stream stream(model_.device());
  const auto counted = [&](std::size_t number, Generated&& made) {
    ++progress_.texts;
    done(number, std::move(made));
  };
  for (bool more = true; more;) {
    more = false;
    for (int lane = 0; lane < static_cast<int>(lanes_.size()); ++lane) {
      finish(stream, lane, counted);
      start(stream, lane);
      more = more || !lanes_[static_cast<std::size_t>(lane)].is_idle();
    }
    progress_.preemptions = 0;
    for (const Lane& lane : lanes_) progress_.preemptions += lane.preemptions();
    if (watch) watch(progress_);
  }
  chain_.finish();
}

}  // namespace trireme::infer
