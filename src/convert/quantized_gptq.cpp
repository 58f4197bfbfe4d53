// Weights that GPTQ and AWQ have quantized: packed integers with scales of groups.
// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "base/split.hpp"
#include "convert/quantized_groups.hpp"
#include "convert/quantized_matrix.hpp"

namespace trireme::convert {
namespace {

using Stored = QuantizedMatrix::Stored;

// Both store the transposed matrix: codes [inputs, outputs], scales and zero points
// [groups, outputs]. GPTQ packs codes along the inputs and zero points along the outputs;
// AWQ packs both along the outputs, those of a word in an order of its own.
class Packed : public QuantizedMatrix {
 public:
  Packed(const QuantizedSearch& search, bool awq)
      : awq_(awq),
        shape_(search.shape),
        bits_(search.how.bits),
        group_(search.how.group > 0 ? search.how.group : shape_[1]),
        zero_offset_(search.how.zeros_less_one ? 1 : 0),
        codes_(search.need(search.beside(".qweight"), "codes")),
        scales_(search.need(search.beside(".scales"), "scales")),
        zeros_(search.need(search.beside(".qzeros"), "zero points")) {
    const std::int64_t N = shape_[0], K = shape_[1], groups = divide_up(K, group_);
    const std::int64_t zeros = divide_up(N * bits_, 32);
    if (awq_) {
      expect_stored(codes_, {K, zeros}, {"I32"});
    } else {
      expect_stored(codes_, {divide_up(K * bits_, 32), N}, {"I32"});
    }
    expect_stored(zeros_, {groups, zeros}, {"I32"});
    expect_stored(scales_, {groups, N}, {"F16", "BF16", "F32"});
    stored_ = {&codes_, &scales_, &zeros_};
    if (!awq_)
      groups_ = group_of_inputs(search, search.find_beside(".g_idx"), group_, stored_);
  }

  std::string_view type_name() const override { return awq_ ? "AWQ" : "GPTQ"; }
  std::optional<Held> held(const Shape& begin, const Shape& /*extent*/) const override {
    if (!groups_.empty()) return std::nullopt;
    return Held{type(), of_groups().layout(begin), true};
  }

  OwnedCodes read(io::SafetensorsFolder& files, const Shape& begin,
                  const Shape& extent) const override {
    const GroupedScales scales = read_scales(files, begin, extent);
    const CodeType type = this->type();
    OwnedCodes out = scales.owned(type, begin, extent, true);
    out.matrix.rounding = rounding_of(scales_);
    for (int code = 0; code < 16; ++code)
      out.matrix.book.numbers[code] = static_cast<float>(code);
    const std::int64_t row_bytes = CodedMatrix::row_bytes(type, extent[1]);
    auto* const to = out.codes.view().data<std::uint8_t>();
    const auto put = [&](std::int64_t i, std::int64_t j, unsigned code) {
      if (type == CodeType::four_bits) {
        put_four_bits(to + i * row_bytes, j, code);
      } else {  // of 0 to 255, as are their zero points
        to[i * row_bytes + j] = static_cast<std::uint8_t>(static_cast<int>(code) - 128);
      }
    };
    if (awq_) {
      const std::int64_t first = begin[0] * bits_ / 32;
      const std::int64_t words = divide_up((begin[0] + extent[0]) * bits_, 32) - first;
      const Buffer packed =
          read_matrix(files, codes_, DType::i32, {begin[1], first}, {extent[1], words});
      const auto* const word = packed.view().data<std::int32_t>();
      for (std::int64_t i = 0; i < extent[0]; ++i)
        for (std::int64_t j = 0; j < extent[1]; ++j)
          put(i, j, of_output(word + j * words, begin[0] + i, first));
      return out;
    }
    const std::int64_t first = begin[1] * bits_ / 32;
    const std::int64_t words = divide_up((begin[1] + extent[1]) * bits_, 32) - first;
    const Buffer packed =
        read_matrix(files, codes_, DType::i32, {first, begin[0]}, {words, extent[0]});
    const auto* const word = packed.view().data<std::int32_t>();
    for (std::int64_t i = 0; i < extent[0]; ++i)
      for (std::int64_t j = 0; j < extent[1]; ++j)
        put(i, j,
            packed_bits(word + i, extent[0], (begin[1] + j) * bits_ - first * 32, bits_));
    return out;
  }

 private:
  CodeType type() const { return bits_ <= 4 ? CodeType::four_bits : CodeType::int8; }
  GroupedScales of_groups() const { return {1, group_, divide_up(shape_[1], group_)}; }

  // The code of an output in a row of words from word `first` on.
  unsigned of_output(const std::int32_t* row, std::int64_t output,
                     std::int64_t first) const {
    constexpr std::array places = {0, 4, 1, 5, 2, 6, 3, 7};  // of AWQ, in a word
    std::int64_t bit = output * bits_ - first * 32;
    if (awq_) bit = bit / 32 * 32 + 4 * places[static_cast<std::size_t>(output % 8)];
    return packed_bits(row, 1, bit, bits_);
  }

  GroupedScales read_scales(io::SafetensorsFolder& files, const Shape& begin,
                            const Shape& extent) const {
    GroupedScales out = of_groups();
    out.groups = groups_;
    const std::int64_t groups = out.grid_columns, N = extent[0];
    const Buffer scales =
        read_matrix(files, scales_, DType::f32, {0, begin[0]}, {groups, N});
    const std::int64_t first = begin[0] * bits_ / 32;
    const std::int64_t words = divide_up((begin[0] + N) * bits_, 32) - first;
    const Buffer packed =
        read_matrix(files, zeros_, DType::i32, {0, first}, {groups, words});
    const unsigned mask = (1u << bits_) - 1u;
    const float shift = bits_ > 4 ? 128.0F : 0.0F;  // as that of the codes
    for (std::int64_t i = 0; i < N; ++i)
      for (std::int64_t g = 0; g < groups; ++g) {
        out.scales.push_back(scales.view().data<float>()[g * N + i]);
        const unsigned code = of_output(packed.view().data<std::int32_t>() + g * words,
                                        begin[0] + i, first);
        out.zeros.push_back(static_cast<float>((code + zero_offset_) & mask) - shift);
      }
    return out;
  }

  bool awq_;
  Shape shape_;
  int bits_;
  std::int64_t group_;
  unsigned zero_offset_;
  const Stored& codes_;
  const Stored& scales_;
  const Stored& zeros_;
  std::vector<std::int32_t> groups_;
};

}  // namespace

FoundMatrix find_gptq(const QuantizedSearch& search) {
  if (search.find_beside(".qweight") == nullptr) return nullptr;
  return std::make_shared<Packed>(search, false);
}

FoundMatrix find_awq(const QuantizedSearch& search) {
  if (search.find_beside(".qweight") == nullptr) return nullptr;
  return std::make_shared<Packed>(search, true);
}

}  // namespace trireme::convert
