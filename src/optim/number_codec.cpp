// NumberCodec: staging memory, magnitudes, and which numbers are of low precision.
// SPDX-License-Identifier: Apache-2.0
#include "optim/number_codec.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/device_memory.hpp"

namespace trireme::optim {
namespace {

// Magnitudes that each tensor has: of weights and of both moments.
constexpr std::size_t scaled_classes = 3;

}  // namespace

void check_recipe(const StoreConfig& config) {
  for (std::size_t c = 0; c < tensor_classes; ++c) {
    const auto what = static_cast<TensorClass>(c);
    const std::string_view why = cannot_keep(config.recipe, what);
    require(why.empty(), Status::bad_content, "the recipe {} has {} in {}: {}",
            config.recipe.name, name_of(what), name_of(config.type(what)), why);
  }
}

bool StoreConfig::low_precision_state() const {
  return is_fp8(type(TensorClass::weight)) ||
         type(TensorClass::master) != accumulator() || low_precision_sums() ||
         (has_moment1() && type(TensorClass::moment1) != accumulator()) ||
         (has_moment2() && type(TensorClass::moment2) != accumulator());
}

NumberCodec::NumberCodec(StoreContext& context, Device device) : context_(context) {
  const StoreConfig& config = context.config;
  if (!config.low_precision()) return;
  if (config.reports && config.training) report_ = StoredReport(device);
  std::int64_t largest = 0;
  for (const FlatParameter& flat : context.layout.flats)
    largest = std::max(largest, flat.elements);
  values_ =
      Buffer(device, config.accumulator(), {stagings * std::min(most_staged, largest)},
             MemoryClass::workspace, "state in the type of the arithmetic");
  const std::size_t amaxes = scaled_classes * context.layout.tensors.size() + 1;
  amaxes_ = Buffer(device, DType::f32, {static_cast<std::int64_t>(amaxes)},
                   MemoryClass::workspace, "largest magnitudes");
}

TensorView NumberCodec::staging(int i, std::int64_t elements) const {
  return values_.view().rows(i * chunk_elements(), elements);
}

TensorView NumberCodec::one_amax() const {
  return amaxes_.view().rows(amaxes_.view().elements() - 1, 1);
}

float NumberCodec::amax(const TensorView& values) {
  return amax_of(context_.stream, values, one_amax());
}

float NumberCodec::finite_amax(const TensorView& values) {
  return finite_amax_of(context_.stream, values, one_amax());
}

void NumberCodec::encode(TensorClass what, const TensorView& values, const Scales& scales,
                         std::size_t tensor, const TensorView& codes) {
  report_.add(context_.stream, what, values, codes.dtype(), scales.at(tensor));
  optim::encode(context_.stream, values, scales, tensor, codes);
}

void NumberCodec::encode_range(TensorClass what, const FlatParameter& flat, Range range,
                               const TensorView& values, const Scales& scales,
                               const TensorView& codes) {
  for_each_tensor(flat, range, [&](const TensorRange& tensor, Range part) {
    const std::int64_t at = part.begin - range.begin;
    encode(what, values.rows(at, part.count()), scales, tensor.tensor,
           codes.rows(at, part.count()));
  });
}

void NumberCodec::decode_range(const FlatParameter& flat, Range range,
                               const TensorView& codes, const Scales& scales,
                               const TensorView& values) {
  for_each_tensor(flat, range, [&](const TensorRange& tensor, Range part) {
    const std::int64_t at = part.begin - range.begin;
    decode(context_.stream, codes.rows(at, part.count()), scales, tensor.tensor,
           values.rows(at, part.count()));
  });
}

std::vector<float> NumberCodec::amaxes(const FlatParameter& flat, Range range,
                                       const TensorView& values) {
  std::vector<float> amaxes(context_.layout.tensors.size(), 0.0f);
  for_each_tensor(flat, range, [&](const TensorRange& tensor, Range part) {
    const float here = amax(values.rows(part.begin - range.begin, part.count()));
    float& most = amaxes[tensor.tensor];
    most =
        std::isnan(here) ? std::numeric_limits<float>::infinity() : std::max(most, here);
  });
  return amaxes;
}

void NumberCodec::agree(comm::Group& group, std::vector<float>& amaxes) {
  if (group.size() == 1) return;
  const TensorView memory = amax_memory(static_cast<std::int64_t>(amaxes.size()));
  const bool meta = context_.stream.device().is_meta();
  const TensorView host(amaxes.data(), DType::f32, memory.shape());
  if (!meta) copy_bytes(context_.stream, host, memory);
  group.all_reduce(context_.stream, memory, comm::Reduce::max).wait();
  if (meta) return;
  copy_bytes(context_.stream, memory, host);
  context_.stream.synchronize();
}

void NumberCodec::set_scales(const FlatParameter& flat, const std::vector<float>& amaxes,
                             DType type, double factor, Scales& scales) {
  for_each_tensor(flat, flat.whole(), [&](const TensorRange& tensor, Range) {
    const float scale = scale_or_nan(amaxes[tensor.tensor], type);
    scales.set(context_.stream, tensor.tensor, static_cast<float>(scale * factor));
  });
}

}  // namespace trireme::optim
