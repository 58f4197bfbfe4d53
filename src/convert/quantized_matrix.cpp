// QuantizedMatrix: what all ways to store codes share.
// SPDX-License-Identifier: Apache-2.0
#include "convert/quantized_matrix.hpp"

#include <algorithm>

#include "base/row_windows.hpp"
#include "base/split.hpp"
#include "io/element_convert.hpp"

namespace trireme::convert {
namespace {

using Stored = QuantizedMatrix::Stored;

std::string text_of(const std::vector<std::int64_t>& extents) {
  std::string text;
  for (const std::int64_t extent : extents)
    text += format("{}{}", text.empty() ? "" : ", ", extent);
  return "[" + text + "]";
}

// The stored tensor, its bytes seen as those of another type and shape.
Stored seen_as(const Stored& stored, DType dtype,
               const std::vector<std::int64_t>& extents) {
  Stored other = stored;
  other.entry.type = &io::safetensors_type(dtype);
  other.entry.extents = extents;
  return other;
}

}  // namespace

std::size_t QuantizedMatrix::Held::bytes(const Shape& extent) const {
  const std::int64_t scales = layout.count(extent[0], extent[1]) * (zeros ? 2 : 1);
  return static_cast<std::size_t>(extent[0] * CodedMatrix::row_bytes(type, extent[1]) +
                                  scales * static_cast<std::int64_t>(sizeof(float)));
}

const Stored& QuantizedSearch::need(const std::string& tensor,
                                    std::string_view what) const {
  const Stored* const found = find(tensor);
  require(found != nullptr, Status::bad_content,
          "'{}' holds codes, whose {} '{}' are missing", name, what, tensor);
  return *found;
}

void expect_stored(const Stored& stored, const std::vector<std::int64_t>& extents,
                   std::initializer_list<std::string_view> types) {
  const auto& entry = stored.entry;
  require(entry.extents == extents, Status::bad_content,
          "'{}' has the shape {}, where {} was expected", entry.name,
          text_of(entry.extents), text_of(extents));
  const bool known =
      std::find(types.begin(), types.end(), entry.type->name) != types.end();
  require(known, Status::bad_content, "'{}' holds {}, where {} was expected", entry.name,
          entry.type->name, *types.begin());
}

Buffer read_elements(io::SafetensorsFolder& files, const Stored& stored, DType dtype,
                     std::int64_t begin, std::int64_t count) {
  const std::int64_t bytes = stored.entry.end - stored.entry.begin;
  const auto size = static_cast<std::int64_t>(size_of(dtype));
  const std::int64_t all = bytes / size;
  Buffer out(Device::host(), dtype, {count}, MemoryClass::data, "quantized tensor");
  if (count > 0) files.read(seen_as(stored, dtype, {all}), {begin}, out.view());
  return out;
}

Buffer read_matrix(io::SafetensorsFolder& files, const Stored& stored, DType dtype,
                   const Shape& begin, const Shape& extent) {
  Buffer out(Device::host(), dtype, extent, MemoryClass::data, "quantized tensor");
  const bool bytes = stored.entry.type->bits == 8;
  files.read(bytes ? seen_as(stored, DType::u8, stored.entry.extents) : stored, begin,
             out.view());
  return out;
}

DType rounding_of(const Stored& scales) {
  const auto dtype = scales.entry.type->dtype;
  require(dtype && is_floating(*dtype) && *dtype != DType::f64, Status::bad_content,
          "'{}' holds {}, where BF16, F16 or F32 was expected", scales.entry.name,
          scales.entry.type->name);
  return *dtype;
}

unsigned packed_bits(const std::int32_t* words, std::int64_t stride, std::int64_t bit,
                     int bits) {
  const auto word = [&](std::int64_t at) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(words[at * stride]));
  };
  std::uint64_t two = word(bit / 32);
  if (bit % 32 + bits > 32) two |= word(bit / 32 + 1) << 32;
  return static_cast<unsigned>(two >> (bit % 32)) & ((1u << bits) - 1u);
}

void put_four_bits(std::uint8_t* row, std::int64_t j, unsigned code) {
  std::uint8_t& two = row[j / 2];
  two = static_cast<std::uint8_t>(j % 2 == 0 ? code << 4 : two | code);
}

void read_matrix_numbers(const QuantizedMatrix& matrix, io::SafetensorsFolder& files,
                         const Shape& begin, const TensorView& out) {
  // So many elements at a time that codes and numbers are small beside the model.
  constexpr std::int64_t at_once = 1 << 22;
  const std::int64_t rows = out.dim(0), columns = out.dim(1);
  if (rows == 0 || columns == 0) return;
  std::vector<float> numbers(static_cast<std::size_t>(columns));
  for (const auto [first, count] : RowWindows(rows, columns, at_once)) {
    const OwnedCodes codes =
        matrix.read(files, {begin[0] + first, begin[1]}, {count, columns});
    for (std::int64_t i = 0; i < count; ++i) {
      decode_row(codes.matrix, i, numbers.data());
      auto* const to =
          static_cast<std::byte*>(out.raw()) +
          static_cast<std::size_t>((first + i) * out.stride(0)) * size_of(out.dtype());
      io::convert_elements(numbers.data(), DType::f32, to, out.dtype(), columns);
    }
  }
}

FoundMatrix find_quantized(const QuantizedSearch& search) {
  if (search.shape.rank() != 2) return nullptr;
  switch (search.how.kind) {
    case Quantization::Kind::bitsandbytes: return find_bitsandbytes(search);
    case Quantization::Kind::compressed: return find_compressed(search);
    case Quantization::Kind::gptq: return find_gptq(search);
    case Quantization::Kind::awq: return find_awq(search);
    default: return nullptr;
  }
}

}  // namespace trireme::convert
