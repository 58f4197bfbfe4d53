// FP8 codes with a scale for each block of 128 x 128, as DeepSeek-V3 stores them.
// SPDX-License-Identifier: Apache-2.0
// Source: DeepSeek-AI, "DeepSeek-V3", 2024, section 3.3; the arithmetic is that of
// transformers' FineGrainedFP8Config.
#include <algorithm>
#include <cmath>

#include "base/split.hpp"
#include "convert/code_writer.hpp"
#include "convert/row_codes.hpp"

namespace trireme::convert {
namespace {

constexpr std::int64_t block = 128;

class BlockFp8Writer : public CodeWriter {
 public:
  void check(const model::WholeTensor& /*whole*/,
             const FolderPlace& place) const override {
    refuse_transposed("quant_method \"fp8\"", place);
  }

  std::string_view caution(const Shape& shape) const override {
    const auto cut = [](std::int64_t extent) {
      return extent > block && extent % block != 0;
    };
    if (!cut(shape[0]) && !cut(shape[1])) return {};
    return "has a last block of less than 128, as DeepSeek-V3 has them, which "
           "transformers reads on GPUs alone: its way to make numbers of FP8 refuses it "
           "or reads it wrongly";
  }

  std::vector<io::SafetensorsTensor> tensors(const std::string& name, const Shape& shape,
                                             DType /*dtype*/) const override {
    return {stored_tensor(name, DType::e4m3, {shape[0], shape[1]}),
            stored_tensor(beside_weight(name, ".weight_scale_inv"), DType::f32,
                          {divide_up(shape[0], block), divide_up(shape[1], block)})};
  }

  io::Json config(DType /*dtype*/, const std::vector<std::string>& kept) const override {
    io::Json json;
    json["quant_method"] = "fp8";
    json["fmt"] = "e4m3";
    json["activation_scheme"] = "dynamic";
    json["weight_block_size"] = {block, block};
    json["modules_to_not_convert"] = kept;
    return json;
  }

 private:
  void fill(const std::string& name, const TensorView& numbers,
            const std::vector<Buffer>& out) const override {
    const std::int64_t height = numbers.dim(0), width = numbers.dim(1);
    auto* const codes = static_cast<std::uint8_t*>(out[0].view().raw());
    auto* scale = out[1].view().data<float>();
    std::vector<std::vector<float>> rows(block);
    for (std::int64_t first = 0; first < height; first += block) {
      const std::int64_t count = std::min(block, height - first);
      for (std::int64_t i = 0; i < count; ++i)
        take_row(name, numbers, first + i, rows[static_cast<std::size_t>(i)]);
      for (std::int64_t left = 0; left < width; left += block)
        *scale++ = fill_block(rows, count, left, std::min(block, width - left),
                              codes + first * width);
    }
  }

  // Columns from `left` on of so many rows, whose codes begin at `codes`. Returns the
  // scale.
  static float fill_block(const std::vector<std::vector<float>>& rows, std::int64_t count,
                          std::int64_t left, std::int64_t columns, std::uint8_t* codes) {
    float most = 0;
    for (std::int64_t i = 0; i < count; ++i)
      most = std::max(
          most, largest_of(rows[static_cast<std::size_t>(i)].data() + left, columns));
    const Fp8Scale scale = fp8_scale(most);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::vector<float>& row = rows[static_cast<std::size_t>(i)];
      std::uint8_t* const to = codes + i * static_cast<std::int64_t>(row.size()) + left;
      for (std::int64_t j = 0; j < columns; ++j)
        to[j] = scale.code(row[static_cast<std::size_t>(left + j)]);
    }
    return scale.stored;
  }
};

}  // namespace

CodeWriterPtr block_fp8_writer() { return std::make_unique<BlockFp8Writer>(); }

}  // namespace trireme::convert
