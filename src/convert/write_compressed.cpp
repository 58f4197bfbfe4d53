// Codes as compressed-tensors stores them: FP8 by outputs, and packed integers.
// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "convert/code_writer.hpp"
#include "convert/row_codes.hpp"
#include "io/element_convert.hpp"

namespace trireme::convert {
namespace {

using io::SafetensorsTensor;

constexpr std::string_view library = "compressed-tensors";

// kept: modules that are no codes. weights: the scheme of the others.
io::Json config_of(std::string_view format, const std::vector<std::string>& kept,
                   const io::Json& weights) {
  io::Json json;
  json["quant_method"] = library;
  json["format"] = format;
  json["quantization_status"] = "compressed";
  json["ignore"] = kept;
  io::Json& group = json["config_groups"]["group_0"];
  group["targets"] = {"Linear"};
  group["weights"] = weights;
  group["input_activations"] = nullptr;
  group["output_activations"] = nullptr;
  return json;
}

// Element i of the scales, which have a type of their own.
void put_scale(const TensorView& scales, std::int64_t i, float scale) {
  auto* const to = static_cast<std::byte*>(scales.raw()) +
                   static_cast<std::size_t>(i) * size_of(scales.dtype());
  io::convert_elements(&scale, DType::f32, to, scales.dtype(), 1);
}

// The scale is rounded to the type of the numbers, in which it is stored.
class ChannelFp8Writer : public CodeWriter {
 public:
  void check(const model::WholeTensor& /*whole*/,
             const FolderPlace& place) const override {
    refuse_transposed(library, place);
  }

  std::vector<SafetensorsTensor> tensors(const std::string& name, const Shape& shape,
                                         DType dtype) const override {
    return {stored_tensor(name, DType::e4m3, {shape[0], shape[1]}),
            stored_tensor(beside_weight(name, ".weight_scale"), dtype, {shape[0], 1})};
  }

  io::Json config(DType /*dtype*/, const std::vector<std::string>& kept) const override {
    return config_of("float-quantized", kept,
                     {{"num_bits", 8},
                      {"type", "float"},
                      {"symmetric", true},
                      {"strategy", "channel"},
                      {"dynamic", false}});
  }

 private:
  void fill(const std::string& name, const TensorView& numbers,
            const std::vector<Buffer>& out) const override {
    const std::int64_t columns = numbers.dim(1);
    auto* const codes = static_cast<std::uint8_t*>(out[0].view().raw());
    const TensorView& scales = out[1].view();
    std::vector<float> row;
    for (std::int64_t i = 0; i < numbers.dim(0); ++i) {
      take_row(name, numbers, i, row);
      put_scale(scales, i,
                e4m3_codes(row.data(), columns, scales.dtype(), codes + i * columns));
    }
  }
};

// Eight codes to a word, the lowest bits first, each more by 8.
class PackedInt4Writer : public CodeWriter {
 public:
  void check(const model::WholeTensor& whole, const FolderPlace& place) const override {
    refuse_transposed(library, place);
    require(
        whole.shape[1] % group == 0, Status::bad_content,
        "--quantize int4 has a scale for each {} inputs, which do not divide the {} of "
        "'{}': write --quantize nf4 or fp8",
        group, whole.shape[1], place.name);
  }

  std::vector<SafetensorsTensor> tensors(const std::string& name, const Shape& shape,
                                         DType dtype) const override {
    return {stored_tensor(beside_weight(name, ".weight_packed"), DType::i32,
                          {shape[0], shape[1] / in_word}),
            stored_tensor(beside_weight(name, ".weight_scale"), dtype,
                          {shape[0], shape[1] / group}),
            stored_tensor(beside_weight(name, ".weight_shape"), DType::i64, {2})};
  }

  io::Json config(DType /*dtype*/, const std::vector<std::string>& kept) const override {
    return config_of("pack-quantized", kept,
                     {{"num_bits", 4},
                      {"type", "int"},
                      {"symmetric", true},
                      {"strategy", "group"},
                      {"group_size", group},
                      {"dynamic", false}});
  }

 private:
  static constexpr std::int64_t group = 128, in_word = 8;

  void fill(const std::string& name, const TensorView& numbers,
            const std::vector<Buffer>& out) const override {
    auto* words = out[0].view().data<std::int32_t>();
    const TensorView& scales = out[1].view();
    auto* const extents = out[2].view().data<std::int64_t>();
    for (int i = 0; i < 2; ++i) extents[i] = numbers.dim(i);
    std::vector<float> row;
    std::int8_t codes[group];
    std::int64_t at = 0;
    for (std::int64_t i = 0; i < numbers.dim(0); ++i) {
      take_row(name, numbers, i, row);
      for (std::int64_t first = 0; first < numbers.dim(1); first += group, ++at) {
        put_scale(scales, at,
                  int4_codes(row.data() + first, group, scales.dtype(), codes));
        for (std::int64_t j = 0; j < group; j += in_word) *words++ = packed(codes + j);
      }
    }
  }

  static std::int32_t packed(const std::int8_t* codes) {
    std::uint32_t word = 0;
    for (int i = 0; i < in_word; ++i)
      word |= static_cast<std::uint32_t>(codes[i] + 8) << 4 * i;
    return static_cast<std::int32_t>(word);
  }
};

}  // namespace

CodeWriterPtr channel_fp8_writer() { return std::make_unique<ChannelFp8Writer>(); }
CodeWriterPtr packed_int4_writer() { return std::make_unique<PackedInt4Writer>(); }

}  // namespace trireme::convert
