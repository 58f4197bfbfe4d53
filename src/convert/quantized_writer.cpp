// Weights of a folder that is written, as codes: the table of ways, and the choice.
// SPDX-License-Identifier: Apache-2.0
#include "convert/quantized_writer.hpp"

#include <array>
#include <utility>

namespace trireme::convert {
namespace {

constexpr std::array ways = {
    std::pair{std::string_view("nf4"), QuantizeTo::nf4},
    std::pair{std::string_view("fp4"), QuantizeTo::fp4},
    std::pair{std::string_view("int8"), QuantizeTo::int8},
    std::pair{std::string_view("fp8"), QuantizeTo::fp8},
    std::pair{std::string_view("fp8-blocks"), QuantizeTo::fp8_blocks},
    std::pair{std::string_view("int4"), QuantizeTo::int4}};

}  // namespace

std::string_view name_of(QuantizeTo to) {
  for (const auto& [name, way] : ways)
    if (way == to) return name;
  return "none";
}

std::optional<QuantizeTo> quantize_to(std::string_view name) {
  for (const auto& [known, way] : ways)
    if (known == name) return way;
  return {};
}

std::string ways_to_quantize() {
  std::string all;
  for (std::size_t i = 0; i < ways.size(); ++i) {
    if (i > 0) all += i + 1 < ways.size() ? ", " : " and ";
    all += ways[i].first;
  }
  return all;
}

bool Quantize::of_bitsandbytes() const {
  return to == QuantizeTo::nf4 || to == QuantizeTo::fp4 || to == QuantizeTo::int8;
}

CodeWriterPtr code_writer(const Quantize& how) {
  switch (how.to) {
    case QuantizeTo::nf4: return four_bit_writer(FourBitType::nf4, how.nested);
    case QuantizeTo::fp4: return four_bit_writer(FourBitType::fp4, how.nested);
    case QuantizeTo::int8: return int8_writer();
    case QuantizeTo::fp8: return channel_fp8_writer();
    case QuantizeTo::fp8_blocks: return block_fp8_writer();
    case QuantizeTo::int4: return packed_int4_writer();
    default: return nullptr;
  }
}

Written written_as(const model::WholeTensor& whole, const FolderPlace& place) {
  const std::string_view name = whole.name;
  const auto ends_so = [&](std::string_view end) { return name.ends_with(end); };
  if (!whole.learned || whole.shape.rank() != 2 || !ends_so(".weight"))
    return Written::numbers;
  if (place.stacked()) return Written::stacked;
  if (place.transform == model::Transform::unit_dim) return Written::numbers;
  const bool of_block = name.find(".layers.") != std::string_view::npos ||
                        name.find(".h.") != std::string_view::npos;
  // Routers are linear layers in some versions of transformers.
  if (ends_so("gate.weight") || ends_so("router.weight") || ends_so("lm_head.weight") ||
      ends_so("embed_out.weight"))
    return Written::linear;
  if (!of_block) return Written::numbers;
  const bool expert = name.find(".experts.") != std::string_view::npos;
  return expert ? Written::expert : Written::codes;
}

}  // namespace trireme::convert
