// The header of a safetensors file: types, and the rules that it must keep.
// SPDX-License-Identifier: Apache-2.0
#include "io/safetensors.hpp"

#include <algorithm>
#include <array>
#include <tuple>

#include "base/boxes.hpp"
#include "io/json_members.hpp"

namespace trireme::io {
namespace {

// In the reference's order, by which its writer sorts.
constexpr std::array types = {
    SafetensorsType{"BOOL", 8, {}},
    SafetensorsType{"F4", 4, {}},
    SafetensorsType{"F6_E2M3", 6, {}},
    SafetensorsType{"F6_E3M2", 6, {}},
    SafetensorsType{"U8", 8, DType::u8},
    SafetensorsType{"I8", 8, {}},
    SafetensorsType{"F8_E5M2", 8, DType::e5m2},
    SafetensorsType{"F8_E4M3", 8, DType::e4m3},
    SafetensorsType{"F8_E8M0", 8, {}},
    SafetensorsType{"F8_E4M3FNUZ", 8, {}},
    SafetensorsType{"F8_E5M2FNUZ", 8, {}},
    SafetensorsType{"I16", 16, {}},
    SafetensorsType{"U16", 16, DType::u16},
    SafetensorsType{"F16", 16, DType::f16},
    SafetensorsType{"BF16", 16, DType::bf16},
    SafetensorsType{"I32", 32, DType::i32},
    SafetensorsType{"U32", 32, {}},
    SafetensorsType{"F32", 32, DType::f32},
    SafetensorsType{"C64", 64, {}},
    SafetensorsType{"F64", 64, DType::f64},
    SafetensorsType{"I64", 64, DType::i64},
    SafetensorsType{"U64", 64, {}},
};

constexpr auto metadata_key = "__metadata__";
constexpr std::int64_t length_bytes = 8;
// The header is one object of objects, in which extents and offsets are lists.
constexpr int deepest = 3;

const SafetensorsType* type_named(std::string_view name) {
  const auto* const found = std::find_if(
      types.begin(), types.end(), [&](const auto& row) { return row.name == name; });
  return found == types.end() ? nullptr : found;
}

void read_metadata(const JsonField& field, const Json& value, SafetensorsHeader& header) {
  if (!value.is_object()) field.wrong("an object of texts");
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) field.wrong("an object of texts");
    header.metadata[key] = text.get<std::string>();
  }
}

// Bits of all elements; none when 64 bits cannot count them.
std::optional<std::int64_t> bits_of(const SafetensorsTensor& tensor) {
  constexpr std::int64_t most = INT64_MAX;
  std::int64_t bits = tensor.type->bits;
  const bool none =
      std::find(tensor.extents.begin(), tensor.extents.end(), 0) != tensor.extents.end();
  for (const std::int64_t extent : tensor.extents) {
    if (extent > 0 && bits > most / extent) return {};
    if (extent > 0) bits *= extent;
  }
  return none ? 0 : bits;
}

SafetensorsTensor read_tensor(const std::string& name, const JsonField& field,
                              const std::string& path) {
  SafetensorsTensor tensor;
  tensor.name = name;
  const std::string type = field.at("dtype").text();
  tensor.type = type_named(type);
  require(tensor.type != nullptr, Status::bad_content,
          "{}: '{}' has the type '{}', which the format does not have "
          "(InvalidHeaderDeserialization)",
          path, name, type.substr(0, 40));
  const JsonField shape = field.at("shape"), offsets = field.at("data_offsets");
  for (std::size_t i = 0; i < shape.size(); ++i)
    tensor.extents.push_back(shape.at(i).integer(0));
  if (offsets.size() != 2) offsets.wrong("a list of 2 numbers");
  tensor.begin = offsets.at(std::size_t{0}).integer(0);
  tensor.end = offsets.at(std::size_t{1}).integer(0);
  const auto bits = bits_of(tensor);
  require(bits.has_value(), Status::bad_content,
          "{}: '{}' has more elements than 64 bits count (ValidationOverflow)", path,
          name);
  require(*bits % 8 == 0, Status::bad_content,
          "{}: '{}' does not fill its last byte (MisalignedSlice)", path, name);
  require(tensor.begin <= tensor.end && tensor.end - tensor.begin == *bits / 8,
          Status::bad_content,
          "{}: '{}' has the bytes {} to {}, but its shape and type take {} "
          "(TensorInvalidInfo)",
          path, name, tensor.begin, tensor.end, *bits / 8);
  return tensor;
}

// Each tensor begins where the one before it ends, and the last ends the file.
void check_offsets(SafetensorsHeader& header, std::int64_t data_bytes,
                   const std::string& path) {
  std::sort(header.tensors.begin(), header.tensors.end(),
            [](const auto& a, const auto& b) {
              return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
            });
  std::int64_t at = 0;
  for (const auto& tensor : header.tensors) {
    require(tensor.begin == at, Status::bad_content,
            "{}: '{}' begins at byte {} of the data, where {} was expected: tensors "
            "overlap or leave a hole (InvalidOffset)",
            path, tensor.name, tensor.begin, at);
    at = tensor.end;
  }
  require(at == data_bytes, Status::bad_content,
          "{}: its tensors take {} bytes, but it has {} (MetadataIncompleteBuffer)", path,
          at, data_bytes);
}

std::int64_t header_bytes(const PlainFile& file) {
  require(file.size() >= length_bytes, Status::bad_content,
          "{}: has {} bytes, and 8 are the least (HeaderTooSmall)", file.path(),
          file.size());
  std::array<std::byte, length_bytes> raw{};
  file.read(0, raw);
  std::uint64_t length = 0;
  for (std::size_t i = raw.size(); i-- > 0;)
    length = length << 8 | std::to_integer<std::uint64_t>(raw[i]);
  require(length <= static_cast<std::uint64_t>(most_safetensors_header),
          Status::bad_content,
          "{}: says that its header has {} bytes; {} are the most (HeaderTooLarge)",
          file.path(), length, most_safetensors_header);
  const auto bytes = static_cast<std::int64_t>(length);
  require(bytes <= file.size() - length_bytes, Status::bad_content,
          "{}: ends within its header of {} bytes (InvalidHeaderLength)", file.path(),
          bytes);
  return bytes;
}

}  // namespace

const SafetensorsType& safetensors_type(DType dtype) {
  const auto* const found = std::find_if(
      types.begin(), types.end(), [&](const auto& row) { return row.dtype == dtype; });
  require(found != types.end(), "safetensors has no type for {}", name_of(dtype));
  return *found;
}

std::optional<Shape> SafetensorsTensor::shape() const {
  if (extents.size() > static_cast<std::size_t>(Shape::max_rank)) return {};
  Shape shape = shape_of_rank(static_cast<int>(extents.size()));
  for (int i = 0; i < shape.rank(); ++i) shape[i] = extents[static_cast<std::size_t>(i)];
  return shape;
}

SafetensorsHeader read_safetensors(const PlainFile& file) {
  const std::int64_t bytes = header_bytes(file);
  std::string text(static_cast<std::size_t>(bytes), '\0');
  file.read(length_bytes, std::as_writable_bytes(std::span(text)));
  require(text.starts_with('{'), Status::bad_content,
          "{}: the header does not begin with '{' (InvalidHeaderStart)", file.path());
  SafetensorsHeader header;
  try {
    for_each_member(text, 1, deepest,
                    [&](const auto&, const auto& name, const Json& value) {
                      const JsonField field(value, file.path(), name);
                      if (name == metadata_key) {
                        read_metadata(field, value, header);
                      } else {
                        header.tensors.push_back(read_tensor(name, field, file.path()));
                      }
                    });
  } catch (const JsonMistake& mistake) {
    fail(Status::bad_content, "{}: the header is no {}: {} ({})", file.path(),
         mistake.utf8 ? "UTF-8" : "JSON", mistake.what(),
         mistake.utf8 ? "InvalidHeader" : "InvalidHeaderDeserialization");
  }
  const std::int64_t data = length_bytes + bytes;
  check_offsets(header, file.size() - data, file.path());
  for (auto& tensor : header.tensors) {
    tensor.begin += data;
    tensor.end += data;
  }
  return header;
}

std::int64_t safetensors_bytes(const SafetensorsTensor& tensor) {
  const auto bits = bits_of(tensor);
  require(bits.has_value(), "'{}' is too large", tensor.name);
  return *bits / 8;
}

SafetensorsPlan::SafetensorsPlan(std::vector<SafetensorsTensor> tensors)
    : tensors_(std::move(tensors)) {
  std::sort(tensors_.begin(), tensors_.end(), [](const auto& a, const auto& b) {
    return std::tie(b.type, a.name) < std::tie(a.type, b.name);  // rows lie in order
  });
  // Without the format transformers refuses the file.
  std::string text = "{\"__metadata__\":{\"format\":\"pt\"}";
  std::int64_t at = 0;
  for (auto& tensor : tensors_) {
    tensor.begin = at;
    at = tensor.end = at + safetensors_bytes(tensor);
    Json entry;
    entry["dtype"] = tensor.type->name;
    entry["shape"] = tensor.extents;
    entry["data_offsets"] = {tensor.begin, tensor.end};
    text += "," + Json(tensor.name).dump() + ":" + entry.dump();
  }
  text += "}";
  text.resize((text.size() + length_bytes - 1) / length_bytes * length_bytes, ' ');
  for (int i = 0; i < length_bytes; ++i)
    head_.push_back(static_cast<char>(text.size() >> (8 * i) & 0xff));
  head_ += text;
  bytes_ = static_cast<std::int64_t>(head_.size()) + at;
  for (auto& tensor : tensors_) {
    tensor.begin += static_cast<std::int64_t>(head_.size());
    tensor.end += static_cast<std::int64_t>(head_.size());
  }
}

}  // namespace trireme::io
