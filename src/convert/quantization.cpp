// FP8 and MXFP4 weights of a Hugging Face folder: their numbers.
// SPDX-License-Identifier: Apache-2.0
#include "convert/quantization.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "base/memory.hpp"
#include "base/split.hpp"
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

std::array<float, 256> e4m3_numbers() {
  std::array<float, 256> all{};
  for (unsigned code = 0; code < all.size(); ++code)
    all[code] = (code & 0x7fu) == 0x7fu ? std::numeric_limits<float>::quiet_NaN()
                                        : number_of(code, 4, 3, 7);
  return all;
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
  const bool floating = scales.type->dtype && io::is_floating(*scales.type->dtype);
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

// One row of numbers, converted to the type of out.
void put_row(const std::vector<float>& numbers, const TensorView& out, std::int64_t row) {
  auto* const to = static_cast<std::byte*>(out.raw()) +
                   static_cast<std::size_t>(row * out.stride(0)) * size_of(out.dtype());
  io::convert_elements(numbers.data(), DType::f32, to, out.dtype(), out.dim(1));
}

void read_fp8(io::SafetensorsFolder& files, const QuantizedTensor& tensor,
              const Shape& begin, const TensorView& out) {
  static const auto numbers = e4m3_numbers();
  const Quantization& how = tensor.how;
  const bool blocks = how.rows > 0;
  const Buffer codes = read_box(files, *tensor.codes, DType::e4m3, begin, out.shape());
  const auto* const code = static_cast<const std::uint8_t*>(codes.view().raw());
  QuantizedTensor::Stored stored = *tensor.scales;
  if (!blocks) stored.entry.extents = {1};  // it may have no dims
  Shape grid = *stored.entry.shape();
  Shape corner = io::origin_of(grid);
  for (int i = 0; blocks && i < 2; ++i) {
    const std::int64_t extent = i == 0 ? how.rows : how.columns;
    corner[i] = begin[i] / extent;
    grid[i] = (begin[i] + out.dim(i) - 1) / extent - corner[i] + 1;
  }
  const Buffer scales = read_box(files, stored, DType::f32, corner, grid);
  const auto* const scale = scales.view().data<float>();
  const std::int64_t columns = out.dim(1);
  std::vector<float> row(static_cast<std::size_t>(columns));
  for (std::int64_t i = 0; i < out.dim(0); ++i) {
    const std::int64_t above =
        blocks ? ((begin[0] + i) / how.rows - corner[0]) * grid[1] : 0;
    for (std::int64_t j = 0; j < columns; ++j) {
      const std::int64_t at =
          blocks ? above + (begin[1] + j) / how.columns - corner[1] : 0;
      row[static_cast<std::size_t>(j)] = numbers[code[i * columns + j]] * scale[at];
    }
    put_row(row, out, i);
  }
}

void read_mxfp4(io::SafetensorsFolder& files, const QuantizedTensor& tensor,
                const FolderPlace& place, const Shape& begin, const TensorView& out) {
  static const auto numbers = e2m1_numbers();
  const std::int64_t block = begin[1] / mx_inputs;
  const std::int64_t blocks = (begin[1] + out.dim(1) - 1) / mx_inputs - block + 1;
  const std::int64_t first = place.step * begin[0] + place.first;
  const std::int64_t count = place.step * (out.dim(0) - 1) + 1;
  const Buffer codes =
      read_box(files, *tensor.codes, DType::u8, {place.expert, first, block, 0},
               {1, count, blocks, mx_bytes});
  const Buffer scales = read_box(files, *tensor.scales, DType::u8,
                                 {place.expert, first, block}, {1, count, blocks});
  const auto* const code = codes.view().data<std::uint8_t>();
  const auto* const scale = scales.view().data<std::uint8_t>();
  std::vector<float> row(static_cast<std::size_t>(out.dim(1)));
  for (std::int64_t i = 0; i < out.dim(0); ++i) {
    const std::int64_t blocks_above = place.step * i * blocks;
    for (std::int64_t j = 0; j < out.dim(1); ++j) {
      const std::int64_t at = begin[1] % mx_inputs + j;
      const std::int64_t of = blocks_above + at / mx_inputs;
      require(scale[of] != no_number, Status::bad_content,
              "{}/{}: '{}' has a scale of 255, which is no number", files.path(),
              tensor.scales->file, tensor.scales->entry.name);
      const unsigned two = code[of * mx_bytes + at % mx_inputs / 2];
      const unsigned four_bits = at % 2 == 0 ? two & 0xfu : two >> 4;
      row[static_cast<std::size_t>(j)] =
          std::ldexp(numbers[four_bits], static_cast<int>(scale[of]) - exponent_bias);
    }
    put_row(row, out, i);
  }
}

}  // namespace

std::string why_unusable(const QuantizedTensor& tensor, const FolderPlace& place,
                         const Shape& whole) {
  return tensor.how.kind == Kind::fp8 ? why_unusable_fp8(tensor, whole)
                                      : why_unusable_mxfp4(tensor, place, whole);
}

void read_quantized(io::SafetensorsFolder& files, const QuantizedTensor& tensor,
                    const FolderPlace& place, const Shape& begin, const TensorView& out) {
  if (out.dim(0) == 0 || out.dim(1) == 0) return;
  if (tensor.how.kind == Kind::fp8) {
    read_fp8(files, tensor, begin, out);
  } else {
    read_mxfp4(files, tensor, place, begin, out);
  }
}

}  // namespace trireme::convert
