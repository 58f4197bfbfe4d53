// Manifests whose digest is right and whose content is not.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "campaign/tool.hpp"
#include "io/digest.hpp"
#include "support/format1.hpp"

namespace trireme::campaign {
namespace {

using Json = nlohmann::ordered_json;

// As the program writes it: the digest is that of all bytes before the comma that
// precedes it.
void write_signed(const std::string& path, Json json) {
  json.erase("digest");
  std::string body = json.dump(1);
  body.resize(body.size() - 2);  // "\n}"
  write_file(path, body + ",\n \"digest\": \"" + io::digest_of(body) + "\"\n}\n");
}

Json& a_tensor(Json& json, Draws& draws) {
  return json["tensors"][draws.below(json["tensors"].size())];
}
Json& a_box(Json& json, Draws& draws) {
  Json& boxes = a_tensor(json, draws)["boxes"];
  return boxes[draws.below(boxes.size())];
}
Json& a_file(Json& json, Draws& draws) {
  return json["files"][draws.below(json["files"].size())];
}
// A number that is not what stands there.
void change_number(Json& number, Draws& draws) {
  constexpr std::int64_t far[] = {-1,        0,        1, 1 << 20, std::int64_t{1} << 40,
                                  INT64_MAX, INT64_MIN};
  const std::int64_t before = number.get<std::int64_t>();
  std::int64_t now = draws.below(2) == 0 ? before + 8 : draws.one_of(far);
  number = now == before ? before + 1 : now;
}
void change_extent(Json& extents, Draws& draws) {
  change_number(extents[draws.below(extents.size())], draws);
}
void change_type(Json& value, Draws& draws) {
  const Json other[] = {nullptr,       "text",         -3.5, true,
                        Json::array(), Json::object(), 1e300};
  const Json& drawn = draws.one_of(other);
  value = value.type() == drawn.type() ? Json("text!") : drawn;
}

using Edit = void (*)(Json&, Draws&);

const std::map<std::string, Edit>& edits() {
  static const std::map<std::string, Edit> table = {
      {"box_offset", [](Json& j, Draws& d) { change_number(a_box(j, d)["offset"], d); }},
      {"box_begin", [](Json& j, Draws& d) { change_extent(a_box(j, d)["begin"], d); }},
      {"box_shape", [](Json& j, Draws& d) { change_extent(a_box(j, d)["shape"], d); }},
      {"box_digest",
       [](Json& j, Draws& d) { a_box(j, d)["xxh3_128"] = std::string(32, '0'); }},
      {"box_file", [](Json& j, Draws& d) { a_box(j, d)["file"] = "shard-00077.h5"; }},
      {"box_file_outside",
       [](Json& j, Draws& d) { a_box(j, d)["file"] = "../../../../etc/passwd"; }},
      {"box_missing",
       [](Json& j, Draws& d) {
         Json& boxes = a_tensor(j, d)["boxes"];
         boxes.erase(boxes.begin() + static_cast<std::ptrdiff_t>(d.below(boxes.size())));
       }},
      {"box_twice",
       [](Json& j, Draws& d) {
         Json& boxes = a_tensor(j, d)["boxes"];
         boxes.push_back(Json(boxes.front()));
       }},
      {"shape", [](Json& j, Draws& d) { change_extent(a_tensor(j, d)["shape"], d); }},
      {"shape_dims",
       [](Json& j, Draws& d) {
         Json& shape = a_tensor(j, d)["shape"];
         for (std::size_t n = 1 + d.below(8); n > 0; --n) shape.push_back(1);
       }},
      {"shape_empty", [](Json& j, Draws& d) { a_tensor(j, d)["shape"] = Json::array(); }},
      {"dtype", [](Json& j, Draws& d) { a_tensor(j, d)["dtype"] = "fp128"; }},
      {"dtype_wide", [](Json& j, Draws& d) { a_tensor(j, d)["dtype"] = "fp64"; }},
      {"tensor_missing",
       [](Json& j, Draws& d) {
         Json& list = j["tensors"];
         list.erase(list.begin() + static_cast<std::ptrdiff_t>(d.below(list.size())));
       }},
      {"tensor_twice",
       [](Json& j, Draws& d) { j["tensors"].push_back(Json(a_tensor(j, d))); }},
      {"tensor_path", [](Json& j, Draws& d) { a_tensor(j, d)["path"] = "model/../x"; }},
      {"tensors_none", [](Json& j, Draws&) { j["tensors"] = Json::array(); }},
      {"file_bytes", [](Json& j, Draws& d) { change_number(a_file(j, d)["bytes"], d); }},
      {"file_digest",
       [](Json& j, Draws& d) { a_file(j, d)["xxh3_128"] = std::string(32, 'f'); }},
      {"file_outside",
       [](Json& j, Draws& d) { a_file(j, d)["name"] = "../../../../etc/passwd"; }},
      {"file_dots", [](Json& j, Draws& d) { a_file(j, d)["name"] = ".."; }},
      {"file_missing",
       [](Json& j, Draws& d) {
         Json& list = j["files"];
         list.erase(list.begin() + static_cast<std::ptrdiff_t>(d.below(list.size())));
       }},
      {"version", [](Json& j, Draws&) { j["format_version"] = 999; }},
      {"version_old", [](Json& j, Draws&) { j["format_version"] = -1; }},
      {"format", [](Json& j, Draws&) { j["format"] = "something else"; }},
      {"step", [](Json& j, Draws& d) { change_number(j["step"], d); }},
      {"mesh", [](Json& j, Draws& d) { change_type(j["mesh"]["data"], d); }},
      {"type_of_number",
       [](Json& j, Draws& d) { change_type(a_box(j, d)["offset"], d); }},
      {"type_of_list",
       [](Json& j, Draws& d) { change_type(a_tensor(j, d)["boxes"], d); }},
      {"type_of_text", [](Json& j, Draws& d) { change_type(a_tensor(j, d)["path"], d); }},
      {"type_of_files", [](Json& j, Draws& d) { change_type(j["files"], d); }},
      {"key_missing", [](Json& j, Draws& d) {
         const std::string keys[] = {"step",  "tokens",  "mesh",   "deck",
                                     "files", "tensors", "format", "format_version"};
         j.erase(d.one_of(keys));
       }}};
  return table;
}

// Manifests are edited as text, which those of format 1 are; what the index of a newer
// one says, they say too. tests/ranks/checkpoint_damage_test.cpp edits indices.
void to_format1(const std::string& path) {
  const Json json = Json::parse(read_file(path));
  if (json.at("format_version") == 1) return;
  test::make_format1(path.substr(0, path.rfind('/')));
}

std::int64_t element_bytes(const std::string& dtype) {
  if (dtype == "fp64" || dtype == "int64") return 8;
  if (dtype == "fp32" || dtype == "int32") return 4;
  return dtype == "bf16" || dtype == "fp16" || dtype == "uint16" ? 2 : 1;
}

}  // namespace

Words manifest_kinds() {
  Words kinds;
  for (const auto& [name, edit] : edits()) kinds.push_back(name);
  return kinds;
}

std::string edit_manifest(const std::string& path, const std::string& kind,
                          std::uint64_t seed) {
  Draws draws(seed);
  to_format1(path);
  Json json = Json::parse(read_file(path));
  const Json before = json;
  edits().at(kind)(json, draws);
  write_signed(path, json);
  const std::string changes = Json::diff(before, json).dump();
  return kind + " " + changes.substr(0, 300);
}

void adopt_file(const std::string& folder, const std::string& file) {
  const std::string path = folder + "/manifest.json";
  to_format1(path);
  const std::string bytes = read_file(folder + "/" + file);
  Json json = Json::parse(read_file(path));
  std::vector<bool> boxed(bytes.size(), false);
  for (Json& tensor : json["tensors"])
    for (Json& box : tensor["boxes"]) {
      if (box["file"] != file) continue;
      std::int64_t count = element_bytes(tensor["dtype"]);
      for (const auto& extent : box["shape"]) count *= extent.get<std::int64_t>();
      const auto begin = box["offset"].get<std::size_t>();
      const auto length = static_cast<std::size_t>(count);
      if (begin + length > bytes.size()) continue;
      box["xxh3_128"] = io::digest_of(std::string_view(bytes).substr(begin, length));
      std::fill_n(boxed.begin() + static_cast<std::ptrdiff_t>(begin), length, true);
    }
  std::string frame;
  for (std::size_t i = 0; i < bytes.size(); ++i)
    if (!boxed[i]) frame += bytes[i];
  for (Json& entry : json["files"]) {
    if (entry["name"] != file) continue;
    entry["bytes"] = bytes.size();
    entry["xxh3_128"] = io::digest_of(bytes);
    if (entry.contains("frame_xxh3_128")) entry["frame_xxh3_128"] = io::digest_of(frame);
  }
  write_signed(path, json);
}

}  // namespace trireme::campaign
