// OptimizerState: the step on low-precision state, in the accumulator's type.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "base/philox.hpp"
#include "kernels/elementwise.hpp"
#include "optim/optimizer_state.hpp"

namespace trireme::optim {
namespace {

// What the codec's staging memory holds of a chunk.
enum Staged : int { master = 0, gradient = 1, moment1 = 2, moment2 = 3 };

Staged staged_of(std::size_t state) { return state == 0 ? moment1 : moment2; }
Kept kept_of(std::size_t state) { return kept_states.at(state); }
Scaled scaled_of(std::size_t state) {
  return state == 0 ? Scaled::moment1 : Scaled::moment2;
}

}  // namespace

// State that is offloaded passes through memory on the device; other state is used where
// it lies. staged(): to be written, then given back; brought(): as it is kept.
TensorView OptimizerState::staged(Kept what, const TensorView& kept,
                                  bool offloaded) const {
  if (!offloaded) return kept;
  static_assert(static_cast<std::int64_t>(Kept::weight) + 1 == NumberCodec::stagings);
  const std::int64_t size = staged_state_.view().elements() / NumberCodec::stagings;
  return memory_as(
      staged_state_.view().rows(static_cast<std::int64_t>(what) * size, size),
      kept.dtype(), kept.elements());
}

TensorView OptimizerState::brought(Kept what, const FlatParameter& flat,
                                   const TensorView& kept) {
  const TensorView here = staged(what, kept, memory_.offloads(flat));
  if (here.raw() != kept.raw()) context_.to_device(kept, here);
  return here;
}

void OptimizerState::give_back(const TensorView& staged, const TensorView& kept) {
  if (staged.raw() != kept.raw()) context_.to_host(staged, kept);
}

// Weights of FP8 from the master weights of this rank's shards.
void OptimizerState::encode_weights() {
  const auto each_chunk = [&](const auto& body) {
    for (const FlatParameter& flat : context_.layout.flats) {
      codec_.for_each_chunk(
          flat, flat.shard(), [&](const TensorRange& tensor, Range part) {
            const Chunk chunk{flat, tensor, part};
            const TensorView values = codec_.staging(master, chunk.count());
            kernels::copy(context_.stream,
                          brought(Kept::master, flat, chunk.of(master_shard(flat))),
                          values);
            body(chunk, values);
          });
    }
  };
  scales_.start();
  each_chunk([&](const Chunk& chunk, const TensorView& values) {
    scales_.note_weight(chunk.tensor, chunk.part, values);
  });
  scales_.agree();
  scales_.advance_weights();
  each_chunk([&](const Chunk& chunk, const TensorView& values) {
    const TensorView kept = chunk.of(weights_.shard(chunk.flat));
    const TensorView codes = staged(Kept::weight, kept, offloads_weights(chunk.flat));
    scales_.encode_weight(chunk.tensor, chunk.part, values,
                          scales_.current(Scaled::weight), codes);
    give_back(codes, kept);
  });
}

kernels::RoundingKey OptimizerState::key_of(const Chunk& chunk, RoundedBy use,
                                            std::int64_t step) const {
  // Streams of one tensor's uses differ in bits that no other tensor's hash is likely to.
  const std::uint64_t stream =
      hash_name(context_.layout.tensors[chunk.tensor.tensor].named->tensor) ^
      (static_cast<std::uint64_t>(use) + 1) << 60;
  return {context_.config.seed, stream, static_cast<std::uint32_t>(step)};
}

// Master weights of a chunk, within a pass.
TensorView OptimizerState::master_of(const Chunk& chunk) const {
  return memory_.has_master(chunk.flat)
             ? memory_.rows(Kept::master, chunk.flat, chunk.begin(), chunk.count())
             : weight_rows(chunk.flat, chunk.begin(), chunk.count());
}

void OptimizerState::load(const Step& step, const Chunk& chunk) {
  Stream& stream = context_.stream;
  const auto& [flat, tensor, part] = chunk;
  const std::int64_t count = chunk.count();
  kernels::copy(stream, brought(Kept::master, flat, master_of(chunk)),
                codec_.staging(master, count));
  decode(stream, chunk.of(step.gradients.shard(flat)), step.gradients.scales(),
         tensor.tensor, codec_.staging(gradient, count));
  load_moment(0, chunk);
  load_moment(1, chunk);
}

void OptimizerState::load_moment(std::size_t state, const Chunk& chunk) {
  const auto& [flat, tensor, part] = chunk;
  if (!memory_.has(kept_of(state))) return;
  const TensorView values = codec_.staging(staged_of(state), chunk.count());
  const TensorView kept =
      brought(kept_of(state), flat,
              memory_.rows(kept_of(state), flat, chunk.begin(), chunk.count()));
  if (dynamic_.in_use()) return dynamic_.load(state, flat, tensor, part, kept, values);
  decode(context_.stream, kept, scales_.current(scaled_of(state)), tensor.tensor, values);
  if (state == 1 && context_.config.keeps_roots())
    kernels::square(context_.stream, values);
}

// The new master weights as they will be kept: the same bits in both passes.
void OptimizerState::round_master(const Chunk& chunk, std::int64_t step) {
  const StoreConfig& config = context_.config;
  const TensorView values = codec_.staging(master, chunk.count());
  const DType type = config.type(TensorClass::master);
  if (type == config.accumulator()) return;
  if (config.recipe.stochastic)
    kernels::round_stochastic(context_.stream, values, run_of(chunk.tensor, chunk.part),
                              type, 1.0f, key_of(chunk, RoundedBy::master, step));
  const TensorView rounded =
      memory_as(codec_.staging(gradient, chunk.count()), type, chunk.count());
  kernels::copy(context_.stream, values, rounded);
  kernels::copy(context_.stream, rounded, values);
}

void OptimizerState::note_magnitudes(const Chunk& chunk) {
  const std::int64_t count = chunk.count();
  scales_.note_weight(chunk.tensor, chunk.part, codec_.staging(master, count));
  if (scales_.has(Scaled::moment1))
    scales_.note_moment(Scaled::moment1, chunk.tensor, codec_.staging(moment1, count));
  if (!scales_.has(Scaled::moment2) && !context_.config.keeps_roots()) return;
  const TensorView second = codec_.staging(moment2, count);
  if (context_.config.keeps_roots()) kernels::square_root(context_.stream, second, 0.0f);
  scales_.note_moment(Scaled::moment2, chunk.tensor, second);
}

// Second moments as their roots will be kept. None becomes 0 that was not: the first
// moment would be divided by epsilon.
void OptimizerState::round_roots(const Chunk& chunk, std::int64_t step) {
  const TensorView second = codec_.staging(moment2, chunk.count());
  const DType type = context_.config.type(TensorClass::moment2);
  const float scale = scales_.next(Scaled::moment2).at(chunk.tensor.tensor);
  kernels::square_root(context_.stream, second,
                       scale * kernels::fp8_decode(1, fp8_format(type)));
  kernels::round_stochastic(context_.stream, second, run_of(chunk.tensor, chunk.part),
                            type, scale, key_of(chunk, RoundedBy::moment2, step));
}

void OptimizerState::store(const Chunk& chunk, std::int64_t step) {
  const auto& [flat, tensor, part] = chunk;
  const auto write = [&](Kept what, const TensorView& kept, bool offloaded,
                         const auto& encode) {
    const TensorView codes = staged(what, kept, offloaded);
    encode(codes);
    give_back(codes, kept);
  };
  const TensorView values = codec_.staging(master, chunk.count());
  write(Kept::master, master_of(chunk), memory_.offloads(flat),
        [&](const TensorView& kept) { kernels::copy(context_.stream, values, kept); });
  if (memory_.has_master(flat))
    write(Kept::weight, weight_rows(flat, chunk.begin(), chunk.count()),
          offloads_weights(flat), [&](const TensorView& codes) {
            scales_.encode_weight(chunk.tensor, chunk.part, values,
                                  scales_.next(Scaled::weight), codes);
          });
  store_moment(0, chunk, step);
  store_moment(1, chunk, step);
}

void OptimizerState::store_moment(std::size_t state, const Chunk& chunk,
                                  std::int64_t step) {
  const auto& [flat, tensor, part] = chunk;
  if (!memory_.has(kept_of(state))) return;
  if (state == 1 && context_.config.keeps_roots()) round_roots(chunk, step);
  const TensorView values = codec_.staging(staged_of(state), chunk.count());
  const TensorView kept =
      memory_.rows(kept_of(state), flat, chunk.begin(), chunk.count());
  const TensorView codes = staged(kept_of(state), kept, memory_.offloads(flat));
  if (dynamic_.in_use()) {
    dynamic_.store(state, flat, tensor, part, values, codes);
  } else {
    codec_.encode(state_classes[state], values, scales_.next(scaled_of(state)),
                  tensor.tensor, codes);
  }
  give_back(codes, kept);
}

// The largest magnitudes of the blocks of new moments, over all ranks that have parts.
void OptimizerState::note_blocks(const Step& step, const FlatParameter& flat) {
  dynamic_.start(flat);
  memory_.start(StateMemory::Pass::reads, &flat);
  update_chunks(step, flat, [&](const Chunk& chunk) {
    for (std::size_t s = 0; s < most_states; ++s)
      if (memory_.has(kept_of(s)))
        dynamic_.note(s, flat, chunk.tensor, chunk.part,
                      codec_.staging(staged_of(s), chunk.count()));
  });
  memory_.finish();
  dynamic_.agree(flat);
}

// Updates the flat parameter's chunks in staging memory and calls finish(chunk).
template <class Body>
void OptimizerState::update_chunks(const Step& step, const FlatParameter& flat,
                                   const Body& finish) {
  const auto update = [&](const TensorRange& tensor, Range part) {
    const Chunk chunk{flat, tensor, part};
    const auto values = [&](Kept kept, Staged where) {
      return memory_.has(kept) ? codec_.staging(where, chunk.count()) : TensorView();
    };
    load(step, chunk);
    apply_rule(step, *tensor.param, codec_.staging(master, chunk.count()),
               codec_.staging(gradient, chunk.count()),
               {values(Kept::moment1, moment1), values(Kept::moment2, moment2)},
               TensorView());
    round_master(chunk, step.factors.update);
    finish(chunk);
  };
  const std::int64_t begin = flat.shard().begin;
  codec_.for_each_chunk(flat, flat.shard(), [&](const TensorRange& tensor, Range part) {
    for (std::int64_t at = part.begin, count = 0; at < part.end; at += count) {
      count = memory_.elements_per_window(flat, at - begin, part.end - at);
      update(tensor, {at, at + count});
    }
  });
}

// Where there are scales the update is made twice: once for the largest magnitudes, which
// give the scales, and once to be kept. Those of blocks are of one flat parameter at a
// time: all at once would need memory on each rank that does not shrink with the shards.
void OptimizerState::update_low_precision(const Step& step) {
  const FlatLayout& layout = context_.layout;
  if (scales_.any()) {
    scales_.start();
    memory_.start(StateMemory::Pass::reads);
    for (const FlatParameter& flat : layout.flats)
      if (!flat.frozen)
        update_chunks(step, flat, [&](const Chunk& chunk) { note_magnitudes(chunk); });
    memory_.finish();
    scales_.agree();
  }
  // Blocks are agreed on before a flat parameter is written: its passes are its own.
  if (!dynamic_.in_use()) memory_.start(StateMemory::Pass::updates);
  for (const FlatParameter& flat : layout.flats) {
    if (flat.frozen) continue;
    if (dynamic_.in_use()) {
      note_blocks(step, flat);
      memory_.start(StateMemory::Pass::updates, &flat);
    }
    update_chunks(step, flat,
                  [&](const Chunk& chunk) { store(chunk, step.factors.update); });
    if (dynamic_.in_use()) {
      memory_.finish();
      dynamic_.keep(flat);
    }
    weights_.all_gather(flat);
  }
  memory_.finish();
  scales_.advance();
}

}  // namespace trireme::optim
