// The manifest of a checkpoint, and the names of checkpoints.
// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint_manifest.hpp"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/number.hpp"
#include "io/checkpoint_verify.hpp"
#include "io/digest.hpp"
#include "io/files.hpp"

namespace trireme::io {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t manifest_limit_bytes = std::int64_t{1} << 30;
constexpr std::size_t digest_digits = 32;
constexpr std::string_view before_digest = ",\n \"digest\": \"";
constexpr std::string_view after_digest = "\"\n}\n";

constexpr std::array dtypes = {DType::f64,  DType::f32, DType::bf16, DType::f16,
                               DType::i64,  DType::i32, DType::u16,  DType::u8,
                               DType::e4m3, DType::e5m2};

DType dtype_named(const std::string& name) {
  for (const DType dtype : dtypes)
    if (name_of(dtype) == name) return dtype;
  fail(Status::bad_content, "unknown element type '{}'", name);
}

Shape shape_of(const Json& json) {
  const auto extents = json.get<std::vector<std::int64_t>>();
  switch (extents.size()) {
    case 1: return {extents[0]};
    case 2: return {extents[0], extents[1]};
    case 3: return {extents[0], extents[1], extents[2]};
    case 4: return {extents[0], extents[1], extents[2], extents[3]};
    default: fail(Status::bad_content, "a tensor of {} dims", extents.size());
  }
}

Json to_json(const Shape& shape) {
  Json extents = Json::array();
  for (int i = 0; i < shape.rank(); ++i) extents.push_back(shape[i]);
  return extents;
}

Json to_json(const Manifest& manifest) {
  const CheckpointInfo& info = manifest.info;
  Json json;
  json["format"] = "trireme checkpoint";
  json["format_version"] = info.format_version;
  json["program_version"] = info.program_version;
  json["step"] = info.step;
  json["tokens"] = info.tokens;
  json["mesh"] = {{"pipeline", info.mesh.pipeline},
                  {"data", info.mesh.data},
                  {"context", info.mesh.context},
                  {"tensor", info.mesh.tensor}};
  json["deck"] = info.deck;
  json["files"] = Json::array();
  for (const auto& file : manifest.files) {
    Json& entry = json["files"].emplace_back();
    entry = {{"name", file.name}, {"bytes", file.bytes}, {"xxh3_128", file.digest}};
    if (!file.frame.empty()) entry["frame_xxh3_128"] = file.frame;
  }
  json["tensors"] = Json::array();
  for (std::size_t i = 0; i < manifest.tensors.size(); ++i) {
    const TensorEntry& tensor = manifest.tensors[i];
    Json& entry = json["tensors"].emplace_back();
    entry = {{"path", tensor.path},
             {"dtype", name_of(tensor.dtype)},
             {"shape", to_json(tensor.shape)}};
    entry["boxes"] = Json::array();
    if (i >= manifest.boxes.size()) continue;
    for (const auto& box : manifest.boxes[i])
      entry["boxes"].push_back({{"file", box.file},
                                {"offset", box.offset},
                                {"begin", to_json(box.begin)},
                                {"shape", to_json(box.extent)},
                                {"xxh3_128", box.digest}});
  }
  return json;
}

CheckpointInfo info_of(const Json& json) {
  CheckpointInfo info;
  json.at("format_version").get_to(info.format_version);
  json.at("program_version").get_to(info.program_version);
  json.at("step").get_to(info.step);
  json.at("tokens").get_to(info.tokens);
  const Json& mesh = json.at("mesh");
  mesh.at("pipeline").get_to(info.mesh.pipeline);
  mesh.at("data").get_to(info.mesh.data);
  mesh.at("context").get_to(info.mesh.context);
  mesh.at("tensor").get_to(info.mesh.tensor);
  json.at("deck").get_to(info.deck);
  return info;
}

// Checkpoints of the first programs do not list boxes.
std::vector<BoxEntry> boxes_of(const Json& tensor) {
  std::vector<BoxEntry> boxes;
  if (!tensor.contains("boxes")) return boxes;
  for (const auto& box : tensor.at("boxes"))
    boxes.push_back({box.at("file").get<std::string>(),
                     box.at("offset").get<std::int64_t>(), shape_of(box.at("begin")),
                     shape_of(box.at("shape")), box.at("xxh3_128").get<std::string>()});
  return boxes;
}

Manifest manifest_of(const Json& json) {
  Manifest manifest;
  manifest.info = info_of(json);
  for (const auto& file : json.at("files")) {
    auto& entry = manifest.files.emplace_back();
    file.at("name").get_to(entry.name);
    file.at("bytes").get_to(entry.bytes);
    file.at("xxh3_128").get_to(entry.digest);
    entry.frame = file.value("frame_xxh3_128", "");
    require(!entry.name.empty() && entry.name.find('/') == std::string::npos,
            Status::bad_content, "a file named '{}'", entry.name);
  }
  for (const auto& tensor : json.at("tensors")) {
    manifest.tensors.push_back({tensor.at("path").get<std::string>(),
                                dtype_named(tensor.at("dtype").get<std::string>()),
                                shape_of(tensor.at("shape")), ""});
    manifest.boxes.push_back(boxes_of(tensor));
  }
  return manifest;
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
  if (version == json.end() || !version->is_number_integer() ||
      version->get<std::int64_t>() <= checkpoint_format)
    return;
  const auto program = json.find("program_version");
  throw NewerFormat(
      Status::bad_content,
      format("{}: format version {} was written by Trireme {}; this program reads "
             "versions up to {}",
             path, version->get<std::int64_t>(),
             program != json.end() && program->is_string() ? program->get<std::string>()
                                                           : "?",
             checkpoint_format));
}

bool is_shard(std::string_view name) {
  return name.starts_with("shard-") && name.ends_with(".h5");
}

void check_sizes(const std::string& directory, const Manifest& manifest) {
  for (const auto& file : manifest.files) {
    const std::string path = directory + "/" + file.name;
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0)
      fail(Status::bad_content, "{}: missing from the checkpoint: {}", path,
           std::strerror(errno));
    require(S_ISREG(status.st_mode) && status.st_size == file.bytes, Status::bad_content,
            "{}: has {} bytes, but {} were written", path, status.st_size, file.bytes);
  }
  for (const auto& name : names_in(directory)) {
    const bool listed =
        std::any_of(manifest.files.begin(), manifest.files.end(),
                    [&](const FileEntry& file) { return file.name == name; });
    require(listed || !is_shard(name), Status::bad_content,
            "{}/{}: this shard does not belong to the checkpoint", directory, name);
  }
}

}  // namespace

std::vector<std::string> names_in(const std::string& directory) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> handle(::opendir(directory.c_str()),
                                                   ::closedir);
  if (!handle) return names;
  while (const dirent* entry = ::readdir(handle.get())) names.emplace_back(entry->d_name);
  std::sort(names.begin(), names.end());
  return names;
}

std::string manifest_text(const Manifest& manifest) {
  std::string text =
      to_json(manifest).dump(1, ' ', false, Json::error_handler_t::replace);
  text.resize(text.size() - 2);  // the closing "\n}"
  const std::string digest = digest_of(text);
  text += before_digest;
  text += digest;
  text += after_digest;
  return text;
}

Manifest read_manifest(const std::string& directory) {
  const std::string path = directory + "/" + manifest_name;
  std::string text;
  try {
    text = read_text(path, manifest_limit_bytes);
  } catch (const Error& error) {
    // A checkpoint without its manifest is not missing but broken.
    throw Error(Status::bad_content, error.what(), error.where());
  }
  const Json json = Json::parse(text, nullptr, false);
  refuse_newer(path, json);
  require(digest_is_right(text), Status::bad_content,
          "{}: damaged: its content does not fit its digest", path);
  try {
    Manifest manifest = manifest_of(json);
    check_sizes(directory, manifest);
    return manifest;
  } catch (const nlohmann::json::exception& error) {
    fail(Status::bad_content, "{}: is no manifest: {}", path, error.what());
  }
}

std::string why_incomplete(const std::string& directory, int part, int parts) {
  try {
    const Manifest manifest = read_manifest(directory);
    if (parts == 0) return "";
    const Verification found = verify_share(directory, manifest, part, parts);
    return found.damage.empty() ? "" : found.damage.front();
  } catch (const NewerFormat&) {
    throw;
  } catch (const Error& error) {
    return error.what();
  }
}

std::string step_name(std::int64_t step) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "step-%08lld", static_cast<long long>(step));
  return text.data();
}

std::optional<std::int64_t> step_of(const std::string& name) {
  constexpr std::string_view prefix = "step-";
  if (!name.starts_with(prefix) || name.size() > prefix.size() + 18) return {};
  const std::string digits = name.substr(prefix.size());
  if (digits.empty() || digits.find_first_not_of("0123456789") != std::string::npos)
    return {};
  const auto step = parse_number<std::int64_t>(digits);
  if (!step || step_name(*step) != name) return {};
  return step;
}

std::vector<std::int64_t> steps_in(const std::string& directory) {
  std::vector<std::int64_t> steps;
  for (const auto& name : names_in(directory))
    if (const auto step = step_of(name)) steps.push_back(*step);
  std::sort(steps.begin(), steps.end());
  return steps;
}

std::string latest_target(const std::string& directory) {
  std::array<char, PATH_MAX> target{};
  const std::string path = directory + "/" + latest_name;
  const ssize_t length = ::readlink(path.c_str(), target.data(), target.size());
  return length < 0 ? "" : std::string(target.data(), static_cast<std::size_t>(length));
}

std::string mesh_text(const comm::MeshShape& mesh) {
  return format("pipeline={} data={} context={} tensor={}", mesh.pipeline, mesh.data,
                mesh.context, mesh.tensor);
}

}  // namespace trireme::io
