// Gathers logits: parts of the vocabulary differ by one in length and are padded.
// SPDX-License-Identifier: Apache-2.0
#include "infer/vocabulary_gather.hpp"

#include <algorithm>

#include "base/device_memory.hpp"
#include "base/split.hpp"
#include "kernels/elementwise.hpp"

namespace trireme::infer {
namespace {

std::int64_t padded_width(const LoadedModel& model) {
  return divide_up(model.config().vocabulary,
                   static_cast<std::int64_t>(model.region().size()));
}

// to [0, count) = elements of f32 or f64 from `first` on.
void put(const TensorView& from, std::int64_t first, std::int64_t count, double* to) {
  if (from.dtype() == DType::f64) {
    std::copy_n(from.data<double>() + first, count, to);
    return;
  }
  const float* const numbers = from.data<float>() + first;
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<double>(numbers[i]);
}

// Twice as large as is needed: batches grow.
Buffer landing_of(const Stream& stream, const TensorView& gathered) {
  constexpr auto label = "gathered logits";
  const Shape bytes = {2 * static_cast<std::int64_t>(gathered.bytes())};
  return stream.device().is_cuda()
             ? Buffer::pinned(DType::u8, bytes, MemoryClass::workspace, label)
             : Buffer(Device::host(), DType::u8, bytes, MemoryClass::workspace, label);
}

}  // namespace

void plan_gather(const LoadedModel& model, nn::Pass& pass, const TensorView& logits_RV) {
  const ArenaScope scope(pass.scratch);
  const std::int64_t R = logits_RV.dim(0), padded_V = padded_width(model);
  pass.scratch.take(logits_RV.dtype(), {R, padded_V}, "padded logits");
  pass.scratch.take(logits_RV.dtype(), {model.region().size() * R, padded_V},
                    "gathered logits");
}

void gather_vocabulary(const LoadedModel& model, nn::Pass& pass,
                       const TensorView& logits_RV, Buffer& landing,
                       std::vector<double>& all_RV) {
  const std::int64_t R = logits_RV.dim(0), ranks = model.region().size(),
                     V = model.config().vocabulary;
  all_RV.resize(static_cast<std::size_t>(R * V));
  if (ranks == 1 && logits_RV.device().is_host()) {  // they are all there
    for (std::int64_t row = 0; row < R; ++row)
      put(logits_RV, row * logits_RV.stride(0), V, all_RV.data() + row * V);
    return;
  }
  const ArenaScope scope(pass.scratch);
  const std::int64_t padded_V = padded_width(model);
  const TensorView padded =
      pass.scratch.take(logits_RV.dtype(), {R, padded_V}, "padded logits");
  if (logits_RV.dim(1) < padded_V) kernels::fill(pass.stream, padded, 0.0);
  kernels::copy(pass.stream, logits_RV, padded.columns(0, logits_RV.dim(1)));
  const TensorView gathered = model.region().gather(pass.stream, pass.scratch, padded);
  if (landing.bytes() < gathered.bytes()) landing = landing_of(pass.stream, gathered);
  const TensorView host(landing.view().raw(), gathered.dtype(), gathered.shape());
  copy_bytes(pass.stream, gathered, host);
  pass.stream.synchronize();
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const Range part = split_range(V, ranks, rank);
    for (std::int64_t row = 0; row < R; ++row)
      put(host, (rank * R + row) * padded_V, part.count(),
          all_RV.data() + row * V + part.begin);
  }
}

}  // namespace trireme::infer
