// Weights that bitsandbytes has quantized: NF4 and FP4 in blocks, and LLM.int8().
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string_view>

#include "base/block_scale.hpp"
#include "base/split.hpp"
#include "convert/quantized_matrix.hpp"
#include "io/json_fields.hpp"

namespace trireme::convert {
namespace {

using Stored = QuantizedMatrix::Stored;

constexpr std::int64_t least_block = 32, most_block = 4096, most_state = 1 << 16;
constexpr std::string_view state_name = ".quant_state.bitsandbytes__";

// What the JSON text beside the codes says.
struct State {
  FourBitType type = FourBitType::nf4;
  std::int64_t block = 0;
  DType dtype = DType::f32;
  std::int64_t nested_block = 0;  // 0: absmax is stored as numbers
  float offset = 0;
};

std::int64_t block_of(const io::JsonField& field) {
  const std::int64_t block = field.integer(least_block, most_block);
  if ((block & (block - 1)) != 0) field.wrong("a power of two");
  return block;
}

State read_state(io::SafetensorsFolder& files, const Stored& stored, FourBitType type,
                 const Shape& shape) {
  const std::int64_t bytes = stored.entry.end - stored.entry.begin;
  require(stored.entry.type->name == "U8" && bytes <= most_state, Status::bad_content,
          "'{}' is no JSON text of at most {} bytes", stored.entry.name, most_state);
  const Buffer text = read_elements(files, stored, DType::u8, 0, bytes);
  const std::string_view json(static_cast<const char*>(text.view().raw()),
                              static_cast<std::size_t>(bytes));
  const std::string source = format("'{}'", stored.entry.name);
  const io::Json parsed = io::parse_json(json, 3, source);
  const io::JsonField state(parsed, source);
  State out{type};
  const io::JsonField kind = state.at("quant_type");
  if (kind.text() != (type == FourBitType::nf4 ? "nf4" : "fp4"))
    kind.wrong("the type that the tensor's name ends with");
  out.block = block_of(state.at("blocksize"));
  const io::JsonField dtype = state.at("dtype");
  const std::string name = dtype.text();
  if (name != "float32" && name != "bfloat16" && name != "float16")
    dtype.wrong("float32, bfloat16 or float16");
  out.dtype = name == "float32"    ? DType::f32
              : name == "bfloat16" ? DType::bf16
                                   : DType::f16;
  const io::JsonField extents = state.at("shape");
  if (extents.size() != 2) extents.wrong("the two extents of a matrix");
  for (std::size_t i = 0; i < 2; ++i)
    if (extents.at(i).integer(0) != shape[static_cast<int>(i)])
      extents.wrong(format("{}", shape));
  if (!state.has("nested_blocksize")) return out;
  out.nested_block = block_of(state.at("nested_blocksize"));
  if (state.has("nested_dtype") && state.at("nested_dtype").text() != "float32")
    state.at("nested_dtype").wrong("float32");
  const io::Json& offset =
      parsed.contains("nested_offset") ? parsed["nested_offset"] : parsed;
  if (!offset.is_number()) state.wrong("an object with a number 'nested_offset'");
  out.offset = static_cast<float>(offset.get<double>());
  return out;
}

class FourBits : public QuantizedMatrix {
 public:
  FourBits(const QuantizedSearch& search, const Stored& codes, const Stored& state,
           FourBitType type)
      : shape_(search.shape),
        state_(read_state(search.files, state, type, shape_)),
        codes_(codes),
        absmax_(search.need(search.name + ".absmax", "largest magnitudes")) {
    const std::int64_t n = shape_.elements(), blocks = divide_up(n, state_.block);
    const std::int64_t bytes = codes.entry.end - codes.entry.begin;
    require(bytes == (n + 1) / 2, Status::bad_content,
            "'{}' has {} bytes of codes, where {} were expected for {}", codes.entry.name,
            bytes, (n + 1) / 2, shape_);
    const bool nested = state_.nested_block > 0;
    expect_stored(absmax_, {blocks}, {nested ? "U8" : "F32"});
    stored_ = {&codes, &state, &absmax_};
    if (const Stored* const map = search.find(search.name + ".quant_map"))
      check_map(search.files, *map);
    if (!nested) return;
    nested_ = &search.need(search.name + ".nested_absmax", "nested magnitudes");
    map_ = &search.need(search.name + ".nested_quant_map", "nested numbers");
    expect_stored(*nested_, {divide_up(blocks, state_.nested_block)}, {"F32"});
    expect_stored(*map_, {256}, {"F32"});
    stored_.push_back(nested_);
    stored_.push_back(map_);
  }

  std::string_view type_name() const override {
    return state_.type == FourBitType::nf4 ? "NF4" : "FP4";
  }

  std::optional<Held> held(const Shape& begin, const Shape& /*extent*/) const override {
    ScaleLayout layout{1, state_.block, true};
    layout.first_column = (begin[0] * shape_[1] + begin[1]) % state_.block;
    layout.whole_columns = shape_[1];
    return Held{CodeType::four_bits, layout};
  }

  OwnedCodes read(io::SafetensorsFolder& files, const Shape& begin,
                  const Shape& extent) const override {
    const std::int64_t width = shape_[1], height = extent[0], columns = extent[1];
    const std::int64_t first = begin[0] * width + begin[1];
    const std::int64_t last = first + (height - 1) * width + columns - 1;
    OwnedCodes out(Device::host(), CodeType::four_bits, extent,
                   held(begin, extent)->layout, false);
    out.matrix.book = book_of(state_.type);
    out.matrix.rounding = state_.dtype;
    const Buffer bytes =
        read_elements(files, codes_, DType::u8, first / 2, last / 2 - first / 2 + 1);
    const auto* const from = bytes.view().data<std::uint8_t>();
    auto* const to = out.codes.view().data<std::uint8_t>();
    const std::int64_t row_bytes = (columns + 1) / 2;
    for (std::int64_t i = 0; i < height; ++i) {
      const std::int64_t at = first + i * width - first / 2 * 2;
      std::uint8_t* const row = to + i * row_bytes;
      if (at % 2 == 0 && columns % 2 == 0) {
        std::memcpy(row, from + at / 2, static_cast<std::size_t>(row_bytes));
        continue;
      }
      for (std::int64_t j = 0; j < columns; ++j) {
        const unsigned two = from[(at + j) / 2];
        put_four_bits(row, j, (at + j) % 2 == 0 ? two >> 4 : two & 0xfu);
      }
    }
    read_scales(files, first / state_.block, out.scales.view());
    return out;
  }

 private:
  // A code book of other numbers would be another type of codes.
  void check_map(io::SafetensorsFolder& files, const Stored& map) {
    constexpr float close = 1e-4F;  // FP4 is written with four digits somewhere
    expect_stored(map, {16}, {"F32"});
    const Buffer numbers = read_elements(files, map, DType::f32, 0, 16);
    const CodeBook& book = book_of(state_.type);
    for (int i = 0; i < 16; ++i)
      require(std::abs(numbers.view().data<float>()[i] - book.numbers[i]) < close,
              Status::bad_content, "'{}' holds other numbers than those of {}",
              map.entry.name, type_name());
    stored_.push_back(&map);
  }

  void read_scales(io::SafetensorsFolder& files, std::int64_t first,
                   const TensorView& scales) const {
    const std::int64_t count = scales.elements();
    auto* const to = scales.data<float>();
    if (state_.nested_block == 0) {
      const Buffer absmax = read_elements(files, absmax_, DType::f32, first, count);
      std::copy_n(absmax.view().data<float>(), count, to);
      return;
    }
    const Buffer codes = read_elements(files, absmax_, DType::u8, first, count);
    const Buffer map = read_elements(files, *map_, DType::f32, 0, 256);
    const std::int64_t from = first / state_.nested_block;
    const Buffer nested =
        read_elements(files, *nested_, DType::f32, from,
                      (first + count - 1) / state_.nested_block - from + 1);
    const auto* const numbers = map.view().data<float>();
    const auto* const scale_of = nested.view().data<float>();
    for (std::int64_t i = 0; i < count; ++i)
      to[i] = nested_absmax(numbers[codes.view().data<std::uint8_t>()[i]],
                            scale_of[(first + i) / state_.nested_block - from],
                            state_.offset);
  }

  Shape shape_;
  State state_;
  const Stored& codes_;
  const Stored& absmax_;
  const Stored* nested_ = nullptr;
  const Stored* map_ = nullptr;
};

// w = q SCB / 127. Which columns of an input are outliers is decided when a product is
// made, not here.
class Int8Rows : public QuantizedMatrix {
 public:
  Int8Rows(const QuantizedSearch& search, const Stored& codes)
      : codes_(codes), scales_(search.need(search.beside(".SCB"), "largest magnitudes")) {
    expect_stored(codes, {search.shape[0], search.shape[1]}, {"I8"});
    expect_stored(scales_, {search.shape[0]}, {"F32"});
    stored_ = {&codes, &scales_};
    const Stored* const order = search.find_beside(".weight_format");
    if (order == nullptr) return;
    stored_.push_back(order);
    const Buffer value = order->entry.end - order->entry.begin == 1
                             ? read_elements(search.files, *order, DType::u8, 0, 1)
                             : Buffer();
    require(value.bytes() == 1 && *value.view().data<std::uint8_t>() == 0,
            Status::bad_content,
            "'{}' is not 0: codes in tiles of a GPU are not read, save them in rows",
            order->entry.name);
  }

  std::string_view type_name() const override { return "INT8"; }

  std::optional<Held> held(const Shape& /*begin*/, const Shape& extent) const override {
    return Held{CodeType::int8, {1, extent[1]}};
  }

  OwnedCodes read(io::SafetensorsFolder& files, const Shape& begin,
                  const Shape& extent) const override {
    OwnedCodes out(Device::host(), CodeType::int8, extent, {1, extent[1]}, false);
    out.matrix.factor = 7.874015718698502e-3F;  // 1 / 127
    const Buffer codes = read_matrix(files, codes_, DType::u8, begin, extent);
    std::memcpy(out.codes.view().raw(), codes.view().raw(), codes.bytes());
    const Buffer scales = read_elements(files, scales_, DType::f32, begin[0], extent[0]);
    std::memcpy(out.scales.view().raw(), scales.view().raw(), scales.bytes());
    return out;
  }

 private:
  const Stored& codes_;
  const Stored& scales_;
};

}  // namespace

FoundMatrix find_bitsandbytes(const QuantizedSearch& search) {
  const Stored* const codes = search.find(search.name);
  if (codes == nullptr) return nullptr;
  for (const FourBitType type : {FourBitType::nf4, FourBitType::fp4}) {
    const std::string_view name = type == FourBitType::nf4 ? "nf4" : "fp4";
    const Stored* const state =
        search.find(search.name + std::string(state_name) + std::string(name));
    if (state != nullptr) return std::make_shared<FourBits>(search, *codes, *state, type);
  }
  if (codes->entry.type->name == "I8") return std::make_shared<Int8Rows>(search, *codes);
  require(codes->entry.type->name != "U8", Status::bad_content,
          "'{}' holds codes, whose '{}{}nf4' (or fp4) is missing", search.name,
          search.name, state_name);
  return nullptr;
}

}  // namespace trireme::convert
