// The text of a manifest: JSON that ends with a digest of everything before it.
// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint_manifest_json.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "base/boxes.hpp"
#include "io/digest.hpp"
#include "io/element_convert.hpp"
#include "io/json_fields.hpp"

namespace trireme::io {
namespace {

constexpr auto format_word = "trireme checkpoint";
constexpr std::size_t digest_digits = 32;
constexpr std::string_view before_digest = ",\n \"digest\": \"";
constexpr std::string_view after_digest = "\"\n}\n";
// Of objects and lists: the extents of a box of a tensor lie 6 deep.
constexpr int most_depth = 16;
constexpr std::int64_t most_ranks = INT32_MAX;

constexpr std::array dtypes = {DType::f64,  DType::f32, DType::bf16, DType::f16,
                               DType::i64,  DType::i32, DType::u16,  DType::u8,
                               DType::e4m3, DType::e5m2};

Json to_json(const CheckpointInfo& info, const FileEntry& index) {
  Json json;
  json["format"] = format_word;
  json["format_version"] = info.format_version;
  json["program_version"] = info.program_version;
  json["step"] = info.step;
  json["tokens"] = info.tokens;
  json["mesh"] = {{"pipeline", info.mesh.pipeline},
                  {"data", info.mesh.data},
                  {"context", info.mesh.context},
                  {"tensor", info.mesh.tensor}};
  for (const auto& [name, word] : save_words)
    if (!(info.*word).empty()) json[name] = info.*word;
  if (info.loss) json["loss"] = *info.loss;
  if (info.samples > 0) json["samples"] = info.samples;
  json["deck"] = info.deck;
  json["index"] = {
      {"name", index.name}, {"bytes", index.bytes}, {"xxh3_128", index.digest}};
  return json;
}

bool digest_is_right(std::string_view text) {
  const std::size_t tail = before_digest.size() + digest_digits + after_digest.size();
  if (text.size() < tail) return false;
  const auto body = text.substr(0, text.size() - tail);
  std::string expected(before_digest);
  expected += digest_of(body);
  expected += after_digest;
  return text.substr(body.size()) == expected;
}

// A newer program may even digest its manifest in another way: its version comes first.
void refuse_newer(const std::string& path, const Json& json) {
  if (!json.is_object()) return;
  const auto version = json.find("format_version");
  if (version == json.end() || !version->is_number_unsigned() ||
      version->get<std::uint64_t>() <= static_cast<std::uint64_t>(checkpoint_format))
    return;
  const auto program = json.find("program_version");
  throw NewerFormat(
      Status::bad_content,
      format("{}: format version {} was written by Trireme {}; this program reads "
             "versions up to {}",
             path, version->get<std::uint64_t>(),
             program != json.end() && program->is_string() ? program->get<std::string>()
                                                           : "?",
             checkpoint_format));
}

Shape shape_of(const JsonField& extents, std::int64_t least) {
  const std::size_t rank = extents.size();
  if (rank < 1 || rank > Shape::max_rank) extents.wrong("a list of 1 to 4 extents");
  Shape shape = shape_of_rank(static_cast<int>(rank));
  for (std::size_t i = 0; i < rank; ++i)
    shape[static_cast<int>(i)] = extents.at(i).integer(least);
  return shape;
}

std::string digest_in(const JsonField& field) {
  std::string text = field.text();
  if (text.size() != digest_digits ||
      text.find_first_not_of("0123456789abcdef") != std::string::npos)
    field.wrong("a digest of 32 hexadecimal digits");
  return text;
}

// What is printed and passed on between ranks word by word.
std::string word_in(const JsonField& field) {
  std::string text = field.text();
  if (!is_word(text)) field.wrong("a text without spaces and control characters");
  return text;
}

CheckpointInfo info_of(const JsonField& json) {
  CheckpointInfo info;
  if (json.has("format") && json.at("format").text() != format_word)
    json.at("format").wrong(format("\"{}\"", format_word));
  info.format_version = json.at("format_version").integer(1, checkpoint_format);
  info.program_version = word_in(json.at("program_version"));
  info.step = json.at("step").integer(0);
  info.tokens = json.at("tokens").integer(0);
  const JsonField mesh = json.at("mesh");
  std::int64_t ranks = 1;
  const auto extent = [&](const char* axis) {
    const std::int64_t value = mesh.at(axis).integer(1, most_ranks / ranks);
    ranks *= value;
    return static_cast<int>(value);
  };
  info.mesh.pipeline = extent("pipeline");
  info.mesh.data = extent("data");
  info.mesh.context = extent("context");
  info.mesh.tensor = extent("tensor");
  for (const auto& [name, word] : save_words)
    if (json.has(name)) info.*word = word_in(json.at(name));
  if (json.has("samples")) info.samples = json.at("samples").integer(0);
  info.deck = json.at("deck").text();
  return info;
}

// Where a name stands in the list of files.
using NumberOfFile = std::map<std::string, std::size_t>;

NumberOfFile read_files(const JsonField& files, Manifest& manifest) {
  NumberOfFile numbers;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const JsonField file = files.at(i), name = file.at("name");
    FileEntry& entry = manifest.files.emplace_back();
    entry.name = name.text();
    entry.bytes = file.at("bytes").integer(0);
    entry.digest = digest_in(file.at("xxh3_128"));
    if (file.has("frame_xxh3_128")) entry.frame = digest_in(file.at("frame_xxh3_128"));
    if (!is_plain_name(entry.name) || entry.name == manifest_name)
      name.wrong("the name of a file in the checkpoint's folder");
    if (!numbers.emplace(entry.name, i).second)
      name.wrong("the name of a file that is not listed before");
  }
  return numbers;
}

std::vector<BoxRecord> boxes_of(const JsonField& boxes, DType dtype,
                                const Manifest& manifest, const NumberOfFile& numbers) {
  std::vector<BoxRecord> all;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    const JsonField json = boxes.at(i);
    BoxRecord& box = all.emplace_back();
    const std::string name = json.at("file").text();
    box.begin = shape_of(json.at("begin"), 0);
    box.extent = shape_of(json.at("shape"), 1);
    box.digest = digest_bytes(digest_in(json.at("xxh3_128")));
    const auto number = numbers.find(name);
    if (number == numbers.end()) json.at("file").wrong("one of 'files'");
    box.file = static_cast<std::uint32_t>(number->second);
    box.dataset = static_cast<std::uint32_t>(i);
    const std::int64_t size = manifest.files[number->second].bytes;
    const auto bytes = bytes_of(box.extent, dtype);
    if (!bytes || *bytes > size)
      json.at("shape").wrong(
          format("a box that fits into the {} bytes of '{}'", size, name));
    box.offset = json.at("offset").integer(0, size - *bytes);
  }
  return all;
}

void read_tensors(const std::string& path, const JsonField& tensors,
                  const NumberOfFile& numbers, Manifest& manifest) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const JsonField json = tensors.at(i), type = json.at("dtype");
    TensorEntry entry{word_in(json.at("path")), {}, shape_of(json.at("shape"), 0), ""};
    const std::string dtype = type.text();
    const auto* const known = std::find_if(dtypes.begin(), dtypes.end(),
                                           [&](DType d) { return name_of(d) == dtype; });
    if (known == dtypes.end()) type.wrong("an element type");
    entry.dtype = *known;
    if (!bytes_of(entry.shape, entry.dtype))
      json.at("shape").wrong("extents of at most 2^62 bytes");
    const std::string before = i == 0 ? "" : manifest.tensors.back().path;
    if (entry.path <= before)
      json.at("path").wrong(format("a path after '{}': tensors are sorted", before));
    // Checkpoints of the first programs do not list boxes.
    std::vector<BoxRecord> boxes;
    std::vector<BoxEntry> entries;
    if (json.has("boxes"))
      boxes = boxes_of(json.at("boxes"), entry.dtype, manifest, numbers);
    for (const BoxRecord& box : boxes)
      entries.push_back(
          {manifest.files[box.file].name, box.offset, box.begin, box.extent, ""});
    if (json.has("boxes")) {
      const std::string wrong = why_not_whole(entry.path, entry.shape, entries);
      require(wrong.empty(), Status::bad_content, "{}: '{}.boxes': {}", path,
              json.place(), wrong);
    }
    manifest.boxes.add_tensor(entry.shape.rank(), boxes.size());
    for (std::size_t b = 0; b < boxes.size(); ++b) manifest.boxes.set(i, b, boxes[b]);
    manifest.tensors.push_back(std::move(entry));
  }
}

}  // namespace

std::string manifest_text(const CheckpointInfo& info, const FileEntry& index) {
  std::string text =
      to_json(info, index).dump(1, ' ', false, Json::error_handler_t::replace);
  text.resize(text.size() - 2);  // the closing "\n}"
  const std::string digest = digest_of(text);
  text += before_digest;
  text += digest;
  text += after_digest;
  return text;
}

ParsedManifest parse_manifest(const std::string& path, const std::string& text) {
  const std::string wrong = why_no_json(text, most_depth);
  const Json json =
      wrong.empty() ? Json::parse(text, nullptr, false) : Json(Json::value_t::discarded);
  refuse_newer(path, json);
  require(digest_is_right(text), Status::bad_content,
          "{}: damaged: its content does not fit its digest", path);
  require(!json.is_discarded(), Status::bad_content, "{}: is no manifest: {}", path,
          wrong.empty() ? "it is no JSON" : wrong);
  const std::string source = path + ": is no manifest";
  const JsonField root(json, source);
  ParsedManifest parsed;
  Manifest& manifest = parsed.manifest;
  manifest.info = info_of(root);
  if (const auto loss = json.find("loss"); loss != json.end()) {
    if (!loss->is_number()) root.at("loss").wrong("a number");
    manifest.info.loss = loss->get<double>();
  }
  if (manifest.info.format_version > 1) {
    const JsonField index = root.at("index");
    parsed.index.name = index.at("name").text();
    parsed.index.bytes = index.at("bytes").integer(0, index_limit_bytes);
    parsed.index.digest = digest_in(index.at("xxh3_128"));
    if (parsed.index.name != index_name)
      index.at("name").wrong(format("\"{}\"", index_name));
    return parsed;
  }
  const NumberOfFile numbers = read_files(root.at("files"), manifest);
  read_tensors(path, root.at("tensors"), numbers, manifest);
  return parsed;
}

}  // namespace trireme::io
