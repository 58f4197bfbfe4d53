// Generator: runs a model token by token with a key/value cache.
// SPDX-License-Identifier: Apache-2.0
#include "infer/generator.hpp"

#include <algorithm>
#include <numeric>

#include "base/device_memory.hpp"
#include "infer/block_cache.hpp"
#include "infer/vocabulary_gather.hpp"

namespace trireme::infer {
namespace {

// Arenas for a prompt of `capacity` tokens, measured on the meta device.
std::pair<std::size_t, std::size_t> measure(const LoadedModel& model, StageChain& chain,
                                            std::int64_t capacity,
                                            parallel::AttentionCore& core) {
  const MeasuredPass without_weights(model);
  const Device meta = Device::meta();
  Stream stream(meta);
  Arena saved(meta, 0, MemoryClass::activations, "saved");
  Arena scratch(meta, 0, MemoryClass::workspace, "scratch");
  WeightAccess in_place;
  nn::WeightGradients none(in_place);
  const TensorView ids_T(nullptr, DType::i32, {capacity}, meta);
  nn::Pass pass{stream, saved, scratch, none, core, {1, capacity, ids_T}};
  pass.microbatch.whole_sequences = false;
  const TensorView x_TD = chain.forward(pass, ids_T, 0);
  if (model.part().last())
    plan_gather(model, pass, model.stage().logits(pass, x_TD.rows(capacity - 1, 1)));
  // The attention of a cache takes scratch that grows with the cache, not with the shape.
  constexpr std::size_t slack = 1 << 20;
  return {saved.peak_bytes() + slack, scratch.peak_bytes() + slack};
}

}  // namespace

Generator::Generator(const LoadedModel& model, comm::Group& pipeline,
                     std::int64_t capacity)
    : model_(model),
      capacity_(capacity),
      attention_(make_cache(model, capacity)),
      ids_(model.device(), DType::i32, {2 * capacity}, MemoryClass::data, "token ids"),
      chain_(model, pipeline, capacity, 1),
      arena_bytes_(measure(model, chain_, capacity, attention_)),
      saved_(model.device(), arena_bytes_.first, MemoryClass::activations, "activations"),
      scratch_(model.device(), arena_bytes_.second, MemoryClass::workspace, "scratch"),
      logits_(static_cast<std::size_t>(model.config().vocabulary)) {}

CachedAttention Generator::make_cache(const LoadedModel& model, std::int64_t capacity) {
  const auto& m = model.config();
  const Range layers = model.stage().config().blocks;
  CachedAttention cache(layers.count(), capacity, cache_rows(model).width, m.row().latent,
                        model.dtype(), model.device());
  for (std::int64_t layer = layers.begin; layer < layers.end; ++layer) {
    if (!m.is_linear(layer)) continue;
    const StateShapes shapes = state_shapes(model);
    cache.make_recurrent(layer - layers.begin, shapes.tail, shapes.state, model.dtype(),
                         model.device());
  }
  return cache;
}

std::span<const double> Generator::forward(std::span<const std::int32_t> tokens,
                                           std::int64_t past) {
  const auto count = static_cast<std::int64_t>(tokens.size());
  require(serves(past, past + count),
          "positions {} to {} do not go on from the first {} in the cache", past,
          past + count, past);
  // Until they are all there, none are.
  std::vector<std::int32_t> text = std::move(cached_);
  cached_.clear();
  text.resize(static_cast<std::size_t>(past));
  text.insert(text.end(), tokens.begin(), tokens.end());
  const TensorView tokens_T = ids_.view().rows(0, count);
  const TensorView positions_T = ids_.view().rows(capacity_, count);
  Stream stream(model_.device());
  attention_.begin(stream, past, count);
  std::vector<std::int32_t> ids(tokens.begin(), tokens.end());
  const TensorView on_host(ids.data(), DType::i32, {count});
  copy_bytes(stream, on_host, tokens_T);
  std::iota(ids.begin(), ids.end(), static_cast<std::int32_t>(past));
  copy_bytes(stream, on_host, positions_T);
  WeightAccess in_place;
  nn::WeightGradients none(in_place);
  saved_.reset();
  scratch_.reset();
  nn::Pass pass{stream, saved_, scratch_, none, attention_, {1, count, positions_T}};
  pass.microbatch.whole_sequences = false;
  // Of a text whose positions turn by its length (dynamic) the cache keeps keys as they
  // turned when they came, as that of transformers does.
  const bool ends = model_.config().any_length() && count == 1;
  pass.microbatch.text_length = ends ? 0 : past + count;
  const TensorView x_TD = chain_.forward(pass, tokens_T, 0);
  if (model_.part().last())
    gather_vocabulary(model_, pass, model_.stage().logits(pass, x_TD.rows(count - 1, 1)),
                      landing_, logits_);
  if (model_.part().stages > 1) share_logits(stream);
  cached_ = std::move(text);
  return logits_;
}

void Generator::share_logits(Stream& stream) {
  const TensorView all_V(logits_.data(), DType::f64, {model_.config().vocabulary});
  if (model_.part().last())
    chain_.send_back(stream, all_V, 0);
  else
    chain_.receive_back(stream, all_V);
  chain_.finish();
}

std::span<const double> Generator::logits_after(std::span<const std::int32_t> text) {
  const auto both =
      std::mismatch(cached_.begin(), cached_.end(), text.begin(), text.end() - 1);
  auto past = static_cast<std::int64_t>(both.first - cached_.begin());
  if (!serves(past, std::ssize(text))) past = 0;
  return forward(text.subspan(static_cast<std::size_t>(past)), past);
}

bool Generator::serves(std::int64_t past, std::int64_t length) const {
  if (past == 0) return true;
  const model::ModelConfig& model = model_.config();
  const std::int64_t cached = std::ssize(cached_);
  if (past > cached || (model.has_linear() && past < cached)) return false;
  const auto original = static_cast<std::int64_t>(model.rope_scaling.original);
  if (model.rope_scaling.kind == kernels::RopeScalingKind::longrope)
    return (cached > original) == (length > original);
  return !model.any_length() || past == cached || cached <= original;
}

void Generator::generate(std::span<const std::int32_t> prompt, std::int64_t count,
                         const Sampler& sampler,
                         const std::function<bool(std::int32_t)>& emit) {
  std::vector<std::int32_t> text(prompt.begin(), prompt.end());
  std::int64_t begin = 0, past = 0;  // the cache holds text [begin, begin + past)
  for (std::int64_t i = 0; i < count; ++i) {
    const auto length = static_cast<std::int64_t>(text.size());
    // Full: start again from the last half. The steps are those that a shorter prompt
    // would have taken, so that what follows does not depend on where the prompt ended.
    while (length - begin > capacity_) {
      begin += capacity_ / 2 + 1;
      past = 0;
    }
    if (!serves(past, length - begin)) past = 0;
    const std::span<const std::int32_t> fresh(text.begin() + begin + past, text.end());
    const auto logits = forward(fresh, past);
    past = length - begin;
    const std::int32_t token = sampler.choose(logits, length, text);
    if (!emit(token)) return;
    text.push_back(token);
  }
}

}  // namespace trireme::infer
