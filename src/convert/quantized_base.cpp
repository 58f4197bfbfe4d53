// QuantizedBase: making codes of boxes, and where the numbers come from.
// SPDX-License-Identifier: Apache-2.0
#include "convert/quantized_base.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "base/row_windows.hpp"
#include "base/split.hpp"
#include "convert/model_folder.hpp"
#include "convert/quantized_matrix.hpp"
#include "convert/row_codes.hpp"
#include "io/element_convert.hpp"
#include "io/host_copy.hpp"

namespace trireme::convert {
namespace {

using model::BaseCodes;

constexpr std::string_view prefix = "model/";

std::string_view name_in(std::string_view path) {
  return path.starts_with(prefix) ? path.substr(prefix.size()) : std::string_view();
}

}  // namespace

struct QuantizedBase::Box {
  const std::string& path;
  Shape whole, begin, extent;
  Range rows() const { return {begin[0], begin[0] + extent[0]}; }
};

QuantizedBase::QuantizedBase(std::shared_ptr<const io::TensorSource> numbers,
                             BaseCodes kind,
                             std::function<DType(const std::string& path)> type_of)
    : numbers_(std::move(numbers)), kind_(kind), type_of_(std::move(type_of)) {
  require(makes_codes(kind), "codes are '{}'", name_of(kind));
}

std::size_t QuantizedBase::code_bytes(const std::string& path, const Shape& whole,
                                      const Shape& begin, const Shape& extent) const {
  if (!model::becomes_codes(name_in(path), whole) || extent.elements() == 0) return 0;
  return model::made_bytes(kind_, whole, begin, extent);
}

OwnedCodes QuantizedBase::read_codes(const std::string& path, const Shape& whole,
                                     const Shape& begin, const Shape& extent) const {
  const model::MadeLayout made = model::made_layout(kind_, whole, begin, extent);
  OwnedCodes out(Device::host(), made.type, extent, made.scales, false);
  const DType type = type_of_(path);
  if (kind_ == BaseCodes::int8) {
    out.matrix.factor = 7.874015718698502e-3F;  // 1 / 127
  } else {
    out.matrix.rounding = type == DType::f64 ? DType::f32 : type;
  }
  const Box box{path, whole, begin, extent};
  if (kind_ == BaseCodes::nf4) {
    out.matrix.book = nf4_book;
    make_blocks(box, out);
  } else {
    make_rows(box, out);
  }
  return out;
}

Buffer QuantizedBase::read_rows(const Box& box, std::int64_t first,
                                std::int64_t height) const {
  Buffer rows(Device::host(), DType::f32, {height, box.whole[1]}, MemoryClass::data,
              "numbers that become codes");
  const std::scoped_lock lock(reading_);
  numbers_->read(box.path, box.whole, {first, 0}, rows.view());
  return rows;
}

// Blocks run across the ends of rows: so many rows at a time as are whole blocks.
void QuantizedBase::make_blocks(const Box& box, OwnedCodes& out) const {
  constexpr std::int64_t block = model::nf4_block;
  const std::int64_t N = box.whole[0], K = box.whole[1];
  const std::int64_t period = block / std::gcd(K, block);
  const std::int64_t step =
      std::max<std::int64_t>(1, window_elements / (K * period)) * period;
  const std::int64_t end = std::min(N, divide_up(box.rows().end, period) * period);
  const std::int64_t first_block = (box.begin[0] * K + box.begin[1]) / block;
  const TensorView scales = out.matrix.scales;
  const std::int64_t row_bytes =
      CodedMatrix::row_bytes(CodeType::four_bits, box.extent[1]);
  for (std::int64_t first = box.begin[0] / period * period; first < end; first += step) {
    const std::int64_t height = std::min(step, end - first), count = height * K;
    const Buffer rows = read_rows(box, first, height);
    std::vector<std::uint8_t> codes(static_cast<std::size_t>(count));
    for (std::int64_t at = 0; at < count; at += block) {
      const std::int64_t size = std::min(block, count - at);
      const float scale = four_bit_codes(FourBitType::nf4, rows.view().data<float>() + at,
                                         size, size == block, codes.data() + at);
      const std::int64_t place = (first * K + at) / block - first_block;
      if (place >= 0 && place < scales.elements()) scales.data<float>()[place] = scale;
    }
    const std::int64_t from = std::max(first, box.rows().begin),
                       to = std::min(first + height, box.rows().end);
    for (std::int64_t i = from; i < to; ++i) {
      auto* const row =
          out.matrix.codes.data<std::uint8_t>() + (i - box.begin[0]) * row_bytes;
      const std::uint8_t* const of_row = codes.data() + (i - first) * K + box.begin[1];
      for (std::int64_t j = 0; j < box.extent[1]; ++j) put_four_bits(row, j, of_row[j]);
    }
  }
}

void QuantizedBase::make_rows(const Box& box, OwnedCodes& out) const {
  const std::int64_t K = box.whole[1], columns = box.extent[1];
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(K));
  for (const auto [first, height] : RowWindows(box.extent[0], K, window_elements)) {
    const Buffer rows = read_rows(box, box.begin[0] + first, height);
    for (std::int64_t i = 0; i < height; ++i) {
      const float* const row = rows.view().data<float>() + i * K;
      out.matrix.scales.data<float>()[first + i] =
          kind_ == BaseCodes::int8
              ? int8_codes(box.path, row, K, codes.data())
              : e4m3_codes(row, K, out.matrix.rounding, codes.data());
      std::copy_n(codes.data() + box.begin[1], columns,
                  out.matrix.codes.data<std::uint8_t>() + (first + i) * columns);
    }
  }
}

void QuantizedBase::read(const std::string& path, const Shape& whole, const Shape& begin,
                         const TensorView& out) const {
  const bool coded = model::becomes_codes(name_in(path), whole);
  if (!coded || out.elements() == 0) {
    const std::scoped_lock lock(reading_);
    return numbers_->read(path, whole, begin, out);
  }
  io::HostCopy host;
  host.write(out, [&](const TensorView& view) {
    const std::int64_t columns = view.dim(1);
    const OwnedCodes codes = read_codes(path, whole, begin, {view.dim(0), columns});
    std::vector<float> row(static_cast<std::size_t>(columns));
    for (std::int64_t i = 0; i < view.dim(0); ++i) {
      decode_row(codes.matrix, i, row.data());
      io::convert_elements(row.data(), DType::f32, view.rows(i, 1).raw(), view.dtype(),
                           columns);
    }
  });
}

void CheckpointOnBase::read(const std::string& path, const Shape& whole,
                            const Shape& begin, const TensorView& out) const {
  if (checkpoint_->has(path)) return checkpoint_->read(path, whole, begin, out);
  base_.tensors->read(path, whole, begin, out);
}

std::size_t CheckpointOnBase::code_bytes(const std::string& path, const Shape& whole,
                                         const Shape& begin, const Shape& extent) const {
  if (checkpoint_->has(path)) return 0;
  return base_.codes->code_bytes(path, whole, begin, extent);
}

OwnedCodes CheckpointOnBase::read_codes(const std::string& path, const Shape& whole,
                                        const Shape& begin, const Shape& extent) const {
  return base_.codes->read_codes(path, whole, begin, extent);
}

namespace {

CodedBase stored_base(const std::string& path,
                      const std::shared_ptr<const ModelFolder>& folder, bool any) {
  require(
      any, Status::bad_content,
      "adapter.quantize = \"stored\", but model.from = \"{}\" has no weights as codes: "
      "write adapter.quantize = \"nf4\", or quantize it (trireme convert --quantize)",
      path);
  return {folder, folder};
}

CodedBase made_base(const std::shared_ptr<const io::TensorSource>& numbers,
                    BaseCodes kind, std::map<std::string, DType> types) {
  const auto base = std::make_shared<const QuantizedBase>(
      numbers, kind, [types = std::move(types)](const std::string& path) {
        const auto found = types.find(path);
        require(found != types.end(), Status::bad_content, "there is no tensor '{}'",
                path);
        return found->second;
      });
  return {base, base};
}

}  // namespace

CodedBase open_coded_base(const std::string& path, BaseCodes kind) {
  std::map<std::string, DType> types;
  if (!is_model_folder(path)) {
    const auto checkpoint =
        std::make_shared<const io::CheckpointReader>(path, io::no_digests);
    require(
        kind != BaseCodes::stored, Status::bad_content,
        "adapter.quantize = \"stored\", but model.from = \"{}\" is a checkpoint, which "
        "holds numbers: write adapter.quantize = \"nf4\", \"int8\" or \"fp8\"",
        path);
    for (const auto& tensor : checkpoint->tensors()) types[tensor.path] = tensor.dtype;
    return made_base(checkpoint, kind, std::move(types));
  }
  const auto folder = std::make_shared<const ModelFolder>(path);
  const bool any =
      std::any_of(folder->tensors().begin(), folder->tensors().end(),
                  [](const FolderTensor& tensor) { return tensor.is_quantized(); });
  if (kind == BaseCodes::stored) return stored_base(path, folder, any);
  require(
      !any, Status::bad_content,
      "adapter.quantize = \"{}\", but model.from = \"{}\" is quantized already: write "
      "adapter.quantize = \"stored\"",
      name_of(kind), path);
  for (const FolderTensor& tensor : folder->tensors())
    types[std::string(prefix) + tensor.whole.name] = folder->dtype_of(tensor);
  return made_base(folder, kind, std::move(types));
}

}  // namespace trireme::convert
