// Gathers logits: parts of the vocabulary differ by one in length and are padded.
// SPDX-License-Identifier: Apache-2.0
#include "infer/vocabulary_gather.hpp"

#include "base/device_memory.hpp"
#include "base/split.hpp"
#include "kernels/elementwise.hpp"

namespace trireme::infer {
namespace {

std::int64_t padded_width(const LoadedModel& model) {
  return divide_up(model.config().vocabulary,
                   static_cast<std::int64_t>(model.region().size()));
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
  const ArenaScope scope(pass.scratch);
  const std::int64_t R = logits_RV.dim(0), ranks = model.region().size(),
                     V = model.config().vocabulary, padded_V = padded_width(model);
  const TensorView padded =
      pass.scratch.take(logits_RV.dtype(), {R, padded_V}, "padded logits");
  if (logits_RV.dim(1) < padded_V) kernels::fill(pass.stream, padded, 0.0);
  kernels::copy(pass.stream, logits_RV, padded.columns(0, logits_RV.dim(1)));
  const TensorView gathered = model.region().gather(pass.stream, pass.scratch, padded);
  if (landing.bytes() < gathered.bytes()) landing = landing_of(pass.stream, gathered);
  const TensorView host(landing.view().raw(), gathered.dtype(), gathered.shape());
  copy_bytes(pass.stream, gathered, host);
  pass.stream.synchronize();
  all_RV.resize(static_cast<std::size_t>(R * V));
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const Range part = split_range(V, ranks, rank);
    for (std::int64_t row = 0; row < R; ++row)
      for (std::int64_t i = 0; i < part.count(); ++i) {
        const std::int64_t from = (rank * R + row) * padded_V + i;
        all_RV[static_cast<std::size_t>(row * V + part.begin + i)] =
            host.dtype() == DType::f64 ? host.data<double>()[from]
                                       : static_cast<double>(host.data<float>()[from]);
      }
  }
}

}  // namespace trireme::infer
