// FP8 and MXFP4 weights of a Hugging Face folder: their numbers.
// SPDX-License-Identifier: Apache-2.0
#include "convert/quantization.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <vector>

#include "base/boxes.hpp"
#include "base/memory.hpp"
#include "base/split.hpp"
#include "convert/quantized_matrix.hpp"
#include "io/element_convert.hpp"

namespace trireme::convert {
namespace {

using Kind = Quantization::Kind;

constexpr std::int64_t mx_inputs = 32, mx_bytes = 16;
constexpr int exponent_bias = 127;
constexpr std::uint8_t no_number = 255;  // of the scales of MXFP4
constexpr std::string_view block_key = "weight_block_size";

// The number of a code of few bits: sign, exponent, mantissa. The smallest exponent is
// that of numbers without a leading one.
float number_of(unsigned code, int exponent_bits, int mantissa_bits, int bias) {
  const unsigned sign = code >> (exponent_bits + mantissa_bits);
  const int exponent =
      static_cast<int>(code >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const int mantissa = static_cast<int>(code) & ((1 << mantissa_bits) - 1);
  const int leading = exponent > 0 ? 1 << mantissa_bits : 0;
  const float magnitude = std::ldexp(static_cast<float>(leading + mantissa),
                                     std::max(exponent, 1) - bias - mantissa_bits);
  return sign > 0 ? -magnitude : magnitude;
}

std::array<float, 16> e2m1_numbers() {
  std::array<float, 16> all{};
  for (unsigned code = 0; code < all.size(); ++code) all[code] = number_of(code, 2, 1, 1);
  return all;
}

std::string shape_text(const io::SafetensorsTensor& tensor) {
  std::string text;
  for (const std::int64_t extent : tensor.extents)
    text += format("{}{}", text.empty() ? "" : ", ", extent);
  return "[" + text + "]";
}

// "" if a stored tensor has this shape and type.
std::string why_not(const io::SafetensorsTensor& entry, const Shape& shape, bool of_type,
                    std::string_view type) {
  if (entry.shape() != shape)
    return format("'{}' has the shape {}, where {} was expected", entry.name,
                  shape_text(entry), shape);
  if (!of_type)
    return format("'{}' holds {}, where {} was expected", entry.name, entry.type->name,
                  type);
  return "";
}

bool holds(const io::SafetensorsTensor& entry, DType dtype) {
  return entry.type->dtype == dtype;
}

bool is_one_number(const io::SafetensorsTensor& entry) {
  for (const std::int64_t extent : entry.extents)
    if (extent != 1) return false;
  return entry.shape().has_value();
}

std::string why_unusable_fp8(const QuantizedTensor& tensor, const Shape& whole) {
  const auto &codes = tensor.codes->entry, &scales = tensor.scales->entry;
  if (whole.rank() != 2) return format("'{}' is no matrix of FP8 codes", codes.name);
  std::string wrong = why_not(codes, whole, holds(codes, DType::e4m3), "F8_E4M3");
  if (!wrong.empty()) return wrong;
  const bool floating = scales.type->dtype && is_floating(*scales.type->dtype);
  const Quantization& how = tensor.how;
  if (how.rows == 0) {
    if (!is_one_number(scales))
      return format(
          "'{}' has the shape {}, where one number was expected, for there is "
          "no '{}'",
          scales.name, shape_text(scales), block_key);
    return why_not(scales, *scales.shape(), floating, "a floating type");
  }
  const Shape grid = {divide_up(whole[0], how.rows), divide_up(whole[1], how.columns)};
  return why_not(scales, grid, floating, "a floating type");
}

std::string why_unusable_mxfp4(const QuantizedTensor& tensor, const FolderPlace& place,
                               const Shape& whole) {
  const auto &codes = tensor.codes->entry, &scales = tensor.scales->entry;
  if (!place.stacked() || whole.rank() != 2)
    return format("'{}' is none of the tensors that MXFP4 is read for", codes.name);
  if (whole[1] % mx_inputs != 0)
    return format("'{}' cannot be in blocks of {} inputs, of which there are {}",
                  codes.name, mx_inputs, whole[1]);
  const Shape grid = {place.shape[0], place.shape[2], whole[1] / mx_inputs};
  const std::string wrong = why_not(codes, {grid[0], grid[1], grid[2], mx_bytes},
                                    holds(codes, DType::u8), "U8");
  return wrong.empty() ? why_not(scales, grid, holds(scales, DType::u8), "U8") : wrong;
}

Buffer read_box(io::SafetensorsFolder& files, const QuantizedTensor::Stored& stored,
                DType dtype, const Shape& begin, const Shape& extent) {
  Buffer box(Device::host(), dtype, extent, MemoryClass::data, "quantized tensor");
  files.read(stored, begin, box.view());
  return box;
}

// Where the scales of a box of FP8 lie; its rows and columns are 0 where there is one.
ScaleLayout fp8_layout(const Quantization& how, const Shape& begin, const Shape& extent) {
  if (how.rows == 0) return {extent[0], extent[1]};
  ScaleLayout layout{how.rows, how.columns};
  layout.first_row = begin[0] % how.rows;
  layout.first_column = begin[1] % how.columns;
  layout.grid_columns = (layout.first_column + extent[1] - 1) / how.columns + 1;
  return layout;
}

ScaleLayout mxfp4_layout(const Shape& begin, const Shape& extent) {
  ScaleLayout layout{1, mx_inputs};
  layout.first_column = begin[1] % mx_inputs;
  layout.grid_columns = (layout.first_column + extent[1] - 1) / mx_inputs + 1;
  return layout;
}

OwnedCodes fp8_codes(io::SafetensorsFolder& files, const QuantizedTensor& tensor,
                     const Shape& begin, const Shape& extent) {
  const Quantization& how = tensor.how;
  const bool blocks = how.rows > 0;
  OwnedCodes out(Device::host(), CodeType::e4m3, extent, fp8_layout(how, begin, extent),
                 false);
  const Buffer codes = read_box(files, *tensor.codes, DType::e4m3, begin, extent);
  std::memcpy(out.codes.view().raw(), codes.view().raw(), codes.bytes());
  QuantizedTensor::Stored stored = *tensor.scales;
  if (!blocks) stored.entry.extents = {1};  // it may have no dims
  Shape grid = *stored.entry.shape();
  Shape corner = origin_of(grid);
  for (int i = 0; blocks && i < 2; ++i) {
    const std::int64_t size = i == 0 ? how.rows : how.columns;
    corner[i] = begin[i] / size;
    grid[i] = (begin[i] + extent[i] - 1) / size - corner[i] + 1;
  }
  files.read(stored, corner, TensorView(out.scales.view().raw(), DType::f32, grid));
  return out;
}

OwnedCodes mxfp4_codes(io::SafetensorsFolder& files, const QuantizedTensor& tensor,
                       const FolderPlace& place, const Shape& begin,
                       const Shape& extent) {
  const ScaleLayout layout = mxfp4_layout(begin, extent);
  OwnedCodes out(Device::host(), CodeType::four_bits, extent, layout, false);
  const auto numbers = e2m1_numbers();
  std::copy(numbers.begin(), numbers.end(), out.matrix.book.numbers);
  const std::int64_t block = begin[1] / mx_inputs, blocks = layout.grid_columns;
  const std::int64_t first = place.step * begin[0] + place.first;
  const std::int64_t count = place.step * (extent[0] - 1) + 1;
  const Buffer codes =
      read_box(files, *tensor.codes, DType::u8, {place.expert, first, block, 0},
               {1, count, blocks, mx_bytes});
  const Buffer scales = read_box(files, *tensor.scales, DType::u8,
                                 {place.expert, first, block}, {1, count, blocks});
  const std::int64_t row_bytes = CodedMatrix::row_bytes(CodeType::four_bits, extent[1]);
  for (std::int64_t i = 0; i < extent[0]; ++i) {
    const std::int64_t above = place.step * i * blocks;
    const auto* const code = codes.view().data<std::uint8_t>() + above * mx_bytes;
    const auto* const scale = scales.view().data<std::uint8_t>() + above;
    for (std::int64_t b = 0; b < blocks; ++b) {
      require(scale[b] != no_number, Status::bad_content,
              "{}/{}: '{}' has a scale of 255, which is no number", files.path(),
              tensor.scales->file, tensor.scales->entry.name);
      out.scales.view().data<float>()[i * blocks + b] =
          std::ldexp(1.0f, static_cast<int>(scale[b]) - exponent_bias);
    }
    auto* const row = out.codes.view().data<std::uint8_t>() + i * row_bytes;
    for (std::int64_t j = 0; j < extent[1]; ++j) {
      const std::int64_t at = layout.first_column + j;
      const unsigned two = code[at / 2];
      put_four_bits(row, j, at % 2 == 0 ? two & 0xfu : two >> 4);
    }
  }
  return out;
}

}  // namespace

std::string why_unusable(const QuantizedTensor& tensor, const FolderPlace& place,
                         const Shape& whole) {
  return tensor.how.kind == Kind::fp8 ? why_unusable_fp8(tensor, whole)
                                      : why_unusable_mxfp4(tensor, place, whole);
}

OwnedCodes read_codes(io::SafetensorsFolder& files, const QuantizedTensor& tensor,
                      const FolderPlace& place, const Shape& begin, const Shape& extent) {
  return tensor.how.kind == Kind::fp8 ? fp8_codes(files, tensor, begin, extent)
                                      : mxfp4_codes(files, tensor, place, begin, extent);
}

std::size_t bytes_held(const QuantizedTensor& tensor, const Shape& begin,
                       const Shape& extent) {
  const bool fp8 = tensor.how.kind == Kind::fp8;
  const QuantizedMatrix::Held held{
      fp8 ? CodeType::e4m3 : CodeType::four_bits,
      fp8 ? fp8_layout(tensor.how, begin, extent) : mxfp4_layout(begin, extent)};
  return held.bytes(extent);
}

void read_quantized(io::SafetensorsFolder& files, const QuantizedTensor& tensor,
                    const FolderPlace& place, const Shape& begin, const TensorView& out) {
  if (out.dim(0) == 0 || out.dim(1) == 0) return;
  const OwnedCodes codes =
      read_codes(files, tensor, place, begin, {out.dim(0), out.dim(1)});
  std::vector<float> row(static_cast<std::size_t>(out.dim(1)));
  for (std::int64_t i = 0; i < out.dim(0); ++i) {
    decode_row(codes.matrix, i, row.data());
    auto* const to = static_cast<std::byte*>(out.raw()) +
                     static_cast<std::size_t>(i * out.stride(0)) * size_of(out.dtype());
    io::convert_elements(row.data(), DType::f32, to, out.dtype(), out.dim(1));
  }
}

}  // namespace trireme::convert
