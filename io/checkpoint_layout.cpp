// Which box of which tensor lies in which shard, and the proof that they fit.
// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint_layout.hpp"

#include "io/element_convert.hpp"
#include "io/json_fields.hpp"

namespace trireme::io {
namespace {

Json to_json(const Shape& shape) {
  Json extents = Json::array();
  for (int i = 0; i < shape.rank(); ++i) extents.push_back(shape[i]);
  return extents;
}

Shape shape_of(const JsonField& extents) {
  Shape shape = shape_of_rank(static_cast<int>(extents.size()));
  for (int i = 0; i < shape.rank(); ++i)
    shape[i] = extents.at(static_cast<std::size_t>(i)).integer(0);
  return shape;
}

}  // namespace

std::string ShardReport::text() const {
  Json json{{"name", file.name},
            {"bytes", file.bytes},
            {"digest", file.digest},
            {"frame", file.frame}};
  json["boxes"] = Json::array();
  for (const auto& box : boxes)
    json["boxes"].push_back({box.path, box.source, static_cast<int>(box.dtype),
                             to_json(box.whole), to_json(box.begin), to_json(box.extent),
                             box.offset, box.digest});
  return json.dump();
}

ShardReport ShardReport::parse(const std::string& text) {
  const Json parsed = Json::parse(text, nullptr, false);
  require(!parsed.is_discarded(), "checkpoint: the report of a shard is no JSON");
  const JsonField json(parsed, "checkpoint: the report of a shard");
  ShardReport report;
  report.file = {json.at("name").text(), json.at("bytes").integer(0),
                 json.at("digest").text(), json.at("frame").text()};
  const JsonField boxes = json.at("boxes");
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    const JsonField box = boxes.at(i);
    report.boxes.push_back(
        {box.at(std::size_t{0}).text(), box.at(1).text(),
         static_cast<DType>(box.at(2).integer(0, static_cast<int>(DType::e5m2))),
         shape_of(box.at(3)), shape_of(box.at(4)), shape_of(box.at(5)),
         box.at(6).integer(0), box.at(7).text()});
  }
  return report;
}

std::map<std::string, TensorLayout> make_layout(const std::vector<ShardReport>& reports) {
  std::map<std::string, TensorLayout> layout;
  for (const auto& report : reports) {
    for (const auto& box : report.boxes) {
      const auto [at, is_new] = layout.try_emplace(box.path);
      TensorLayout& tensor = at->second;
      if (is_new) {
        tensor.dtype = box.dtype;
        tensor.whole = box.whole;
      }
      require(tensor.dtype == box.dtype && tensor.whole == box.whole,
              "checkpoint: '{}' is {} of {} in {}, but {} of {} elsewhere", box.path,
              name_of(box.dtype), box.whole, report.file.name, name_of(tensor.dtype),
              tensor.whole);
      if (box.source.empty()) continue;
      tensor.pieces.push_back({report.file.name, box.source, box.begin, box.extent});
      tensor.boxes.push_back(
          {report.file.name, box.offset, box.begin, box.extent, box.digest});
    }
  }
  for (const auto& [path, tensor] : layout) {
    const std::string wrong = why_not_whole(path, tensor.whole, tensor.boxes);
    require(wrong.empty(), "checkpoint: {}", wrong);
  }
  return layout;
}

}  // namespace trireme::io
