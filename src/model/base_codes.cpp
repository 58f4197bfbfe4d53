// BaseCodes: which tensors become codes, and what these take.
// SPDX-License-Identifier: Apache-2.0
#include "model/base_codes.hpp"

#include <algorithm>
#include <array>

#include "nn/adapter_config.hpp"

namespace trireme::model {

std::string_view name_of(BaseCodes kind) {
  constexpr std::array<std::string_view, 5> names = {"none", "stored", "nf4", "int8",
                                                     "fp8"};
  return names.at(static_cast<std::size_t>(kind));
}

bool becomes_codes(std::string_view tensor, const Shape& whole) {
  constexpr std::array<std::string_view, 3> others = {"gate.weight", "router.weight",
                                                      "conv1d.weight"};
  const bool of_block = tensor.find(".layers.") != std::string_view::npos ||
                        tensor.find(".h.") != std::string_view::npos;
  const auto ends_so = [&](std::string_view end) { return tensor.ends_with(end); };
  return of_block && whole.rank() == 2 && ends_so(".weight") &&
         !nn::is_adapter_tensor(tensor) &&
         std::none_of(others.begin(), others.end(), ends_so);
}

MadeLayout made_layout(BaseCodes kind, const Shape& whole, const Shape& begin,
                       const Shape& extent) {
  require(makes_codes(kind), "no codes are made for '{}'", name_of(kind));
  if (kind != BaseCodes::nf4)
    return {kind == BaseCodes::int8 ? CodeType::int8 : CodeType::e4m3, {1, extent[1]}};
  ScaleLayout scales{1, nf4_block, true};
  scales.first_column = (begin[0] * whole[1] + begin[1]) % nf4_block;
  scales.whole_columns = whole[1];
  return {CodeType::four_bits, scales};
}

std::size_t made_bytes(BaseCodes kind, const Shape& whole, const Shape& begin,
                       const Shape& extent) {
  const MadeLayout made = made_layout(kind, whole, begin, extent);
  return static_cast<std::size_t>(
      extent[0] * CodedMatrix::row_bytes(made.type, extent[1]) +
      made.scales.count(extent[0], extent[1]) * static_cast<std::int64_t>(sizeof(float)));
}

}  // namespace trireme::model
