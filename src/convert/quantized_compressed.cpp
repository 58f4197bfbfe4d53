// Weights that compressed-tensors stores: FP8, and integers, as bytes or packed.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "base/split.hpp"
#include "convert/quantized_groups.hpp"
#include "convert/quantized_matrix.hpp"

namespace trireme::convert {
namespace {

using Stored = QuantizedMatrix::Stored;
using Scheme = Quantization::Scheme;

// The grid of scales [outputs, groups of inputs], or of blocks, of the whole matrix.
struct Grid {
  std::int64_t rows, columns;  // elements of a block
  std::int64_t height, width;  // blocks
};

Grid grid_of(const Scheme& scheme, const Shape& shape) {
  const auto of = [&](std::int64_t rows, std::int64_t columns) {
    return Grid{rows, columns, divide_up(shape[0], rows), divide_up(shape[1], columns)};
  };
  switch (scheme.strategy) {
    case Scheme::Strategy::tensor: return of(shape[0], shape[1]);
    case Scheme::Strategy::channel: return of(1, shape[1]);
    case Scheme::Strategy::group: return of(1, scheme.columns);
    default: return of(scheme.rows, scheme.columns);
  }
}

class Compressed : public QuantizedMatrix {
 public:
  Compressed(const QuantizedSearch& search, const Scheme& scheme)
      : scheme_(scheme), shape_(search.shape), grid_(grid_of(scheme, shape_)) {
    const Stored* const packed = search.find_beside(".weight_packed");
    packed_ = packed != nullptr;
    codes_ = packed_ ? packed : search.find(search.name);
    const std::int64_t N = shape_[0], K = shape_[1];
    require(scheme.columns == 0 || scheme.strategy != Scheme::Strategy::group ||
                K % scheme.columns == 0,
            Status::bad_content, "'{}' of {} has no whole groups of {} inputs",
            search.name, shape_, scheme.columns);
    stored_.push_back(codes_);
    if (packed_) {
      require(!scheme.floating, Status::bad_content,
              "'{}' holds packed codes, but its group of {} says floating ones",
              codes_->entry.name, "quantization_config");
      expect_stored(*codes_, {N, divide_up(K * scheme.bits, 32)}, {"I32"});
      check_shape(search);
    } else if (scheme.floating) {
      expect_stored(*codes_, {N, K}, {"F8_E4M3"});
    } else {
      expect_stored(*codes_, {N, K}, {"I8"});
    }
    take_scales(search);
    take_zeros(search);
    groups_ = group_of_inputs(search, search.find_beside(".weight_g_idx"), scheme.columns,
                              stored_);
  }

  std::string_view type_name() const override {
    if (scheme_.floating) return "F8_E4M3";
    return scheme_.bits == 4 ? "INT4" : scheme_.bits == 8 ? "INT8" : "packed integers";
  }
  std::optional<Held> held(const Shape& begin, const Shape& /*extent*/) const override {
    if (!groups_.empty()) return std::nullopt;
    return Held{type(), of_grid().layout(begin), zeros_ != nullptr};
  }

  OwnedCodes read(io::SafetensorsFolder& files, const Shape& begin,
                  const Shape& extent) const override {
    const GroupedScales scales = read_scales(files, begin, extent);
    OwnedCodes out = scales.owned(type(), begin, extent, zeros_ != nullptr);
    out.matrix.rounding = rounding_of(*scales_);
    if (packed_) {
      read_packed(files, begin, extent, out);
    } else {
      const Buffer codes = read_matrix(files, *codes_, DType::u8, begin, extent);
      std::memcpy(out.codes.view().raw(), codes.view().raw(), codes.bytes());
    }
    return out;
  }

 private:
  CodeType type() const {
    if (scheme_.floating) return CodeType::e4m3;
    return packed_ && scheme_.bits <= 4 ? CodeType::four_bits : CodeType::int8;
  }

  void check_shape(const QuantizedSearch& search) {
    const Stored& shape = search.need(search.beside(".weight_shape"), "extents");
    expect_stored(shape, {2}, {"I64", "I32"});
    const Buffer extents(Device::host(), DType::i64, {2}, MemoryClass::data, "extents");
    search.files.read(shape, {0}, extents.view());
    for (int i = 0; i < 2; ++i)
      require(extents.view().data<std::int64_t>()[i] == shape_[i], Status::bad_content,
              "'{}' says other extents than {} of the model", shape.entry.name, shape_);
    stored_.push_back(&shape);
  }

  void take_scales(const QuantizedSearch& search) {
    scales_ = &search.need(search.beside(".weight_scale"), "scales");
    rounding_of(*scales_);
    const auto& extents = scales_->entry.extents;
    const std::string_view type = scales_->entry.type->name;
    const bool one = grid_.height * grid_.width == 1 &&
                     std::all_of(extents.begin(), extents.end(),
                                 [](std::int64_t extent) { return extent == 1; });
    const bool column = grid_.width == 1 && extents.size() == 1;
    if (column && !one) expect_stored(*scales_, {grid_.height}, {type});
    if (!one && !column) expect_stored(*scales_, {grid_.height, grid_.width}, {type});
    stored_.push_back(scales_);
  }

  void take_zeros(const QuantizedSearch& search) {
    zeros_ = search.find_beside(".weight_zero_point");
    require(zeros_ != nullptr || scheme_.symmetric, Status::bad_content,
            "'{}' holds codes, whose zero points '{}' are missing", search.name,
            search.beside(".weight_zero_point"));
    if (zeros_ == nullptr) return;
    stored_.push_back(zeros_);
    const bool bytes = zeros_->entry.type->name == "I8";
    require(packed_ || bytes, Status::bad_content, "'{}' holds {}, where I8 was expected",
            zeros_->entry.name, zeros_->entry.type->name);
    if (!bytes)
      expect_stored(*zeros_, {divide_up(grid_.height * scheme_.bits, 32), grid_.width},
                    {"I32"});
    const std::int64_t count = zeros_->entry.end - zeros_->entry.begin;
    require(!bytes || count == grid_.height * grid_.width, Status::bad_content,
            "'{}' has {} zero points, where {} were expected", zeros_->entry.name, count,
            grid_.height * grid_.width);
  }

  GroupedScales of_grid() const { return {grid_.rows, grid_.columns, grid_.width}; }

  // Scales and zero points of the blocks that the box touches, for all groups of inputs.
  GroupedScales read_scales(io::SafetensorsFolder& files, const Shape& begin,
                            const Shape& extent) const {
    GroupedScales out = of_grid();
    out.groups = groups_;
    const std::int64_t first = begin[0] / grid_.rows;
    const std::int64_t count =
        ((begin[0] + extent[0] - 1) / grid_.rows - first + 1) * grid_.width;
    const std::int64_t from = first * grid_.width;
    Stored flat = *scales_;
    flat.entry.extents = {grid_.height * grid_.width};
    out.scales.resize(static_cast<std::size_t>(count));
    files.read(flat, {from}, TensorView(out.scales.data(), DType::f32, {count}));
    if (zeros_ == nullptr) return out;
    out.zeros.resize(static_cast<std::size_t>(count));
    if (zeros_->entry.type->name == "I8") {
      const Buffer codes = read_elements(files, *zeros_, DType::u8, from, count);
      for (std::int64_t i = 0; i < count; ++i)
        out.zeros[static_cast<std::size_t>(i)] =
            static_cast<std::int8_t>(codes.view().data<std::uint8_t>()[i]);
      return out;
    }
    const std::int64_t words = zeros_->entry.extents[0] * grid_.width;
    const Buffer packed = read_elements(files, *zeros_, DType::i32, 0, words);
    const auto* const word = packed.view().data<std::int32_t>();
    for (std::int64_t i = 0; i < count; ++i)
      out.zeros[static_cast<std::size_t>(i)] = signed_code(
          packed_bits(word + i % grid_.width, grid_.width,
                      (first + i / grid_.width) * scheme_.bits, scheme_.bits));
    return out;
  }

  float signed_code(unsigned code) const {
    return static_cast<float>(static_cast<int>(code) - (1 << (scheme_.bits - 1)));
  }

  void read_packed(io::SafetensorsFolder& files, const Shape& begin, const Shape& extent,
                   OwnedCodes& out) const {
    const int bits = scheme_.bits;
    const std::int64_t first = begin[1] * bits / 32;
    const std::int64_t words = divide_up((begin[1] + extent[1]) * bits, 32) - first;
    const Buffer packed =
        read_matrix(files, *codes_, DType::i32, {begin[0], first}, {extent[0], words});
    // Codes count from the first word on, of which some belong to inputs before the box.
    const std::int64_t skipped = begin[1] * bits - first * 32;
    const bool four = out.matrix.type == CodeType::four_bits;
    for (unsigned code = 0; four && code < 1u << bits; ++code)
      out.matrix.book.numbers[code] = signed_code(code);
    const std::int64_t row_bytes = CodedMatrix::row_bytes(out.matrix.type, extent[1]);
    for (std::int64_t i = 0; i < extent[0]; ++i) {
      const auto* const from = packed.view().data<std::int32_t>() + i * words;
      auto* const to = out.codes.view().data<std::uint8_t>() + i * row_bytes;
      for (std::int64_t j = 0; j < extent[1]; ++j) {
        const unsigned code = packed_bits(from, 1, skipped + j * bits, bits);
        if (four) {
          put_four_bits(to, j, code);
        } else {
          to[j] = static_cast<std::uint8_t>(static_cast<int>(signed_code(code)));
        }
      }
    }
  }

  Scheme scheme_;
  Shape shape_;
  Grid grid_;
  bool packed_ = false;
  const Stored* codes_ = nullptr;
  const Stored* scales_ = nullptr;
  const Stored* zeros_ = nullptr;
  std::vector<std::int32_t> groups_;
};

}  // namespace

// Of several groups of the configuration that holds whose types and shapes are the
// stored ones: they differ in nothing else that is read here.
FoundMatrix find_compressed(const QuantizedSearch& search) {
  const Stored* const whole = search.find(search.name);
  const bool bytes = whole != nullptr && (whole->entry.type->name == "I8" ||
                                          whole->entry.type->name == "F8_E4M3");
  if (!bytes && search.find_beside(".weight_packed") == nullptr) return nullptr;
  const auto& schemes = search.how.schemes;
  for (std::size_t i = 0; i < schemes.size(); ++i) {
    try {
      return std::make_shared<Compressed>(search, schemes[i]);
    } catch (const Error&) {
      if (i + 1 == schemes.size()) throw;
    }
  }
  return nullptr;
}

}  // namespace trireme::convert
