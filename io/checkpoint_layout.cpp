// Which box of which tensor lies in which shard, and the proof that they fit.
// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint_layout.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

namespace trireme::io {
namespace {

using Json = nlohmann::json;
using Piece = Hdf5File::Piece;

Json to_json(const Shape& shape) {
  Json extents = Json::array();
  for (int i = 0; i < shape.rank(); ++i) extents.push_back(shape[i]);
  return extents;
}

// `like` gives the rank.
Shape shape_of(const Json& extents, Shape like) {
  for (int i = 0; i < like.rank(); ++i)
    extents.at(static_cast<std::size_t>(i)).get_to(like[i]);
  return like;
}

Shape of_rank(std::size_t rank) {
  const std::array<Shape, Shape::max_rank + 1> shapes = {
      Shape{}, Shape{0}, Shape{0, 0}, Shape{0, 0, 0}, Shape{0, 0, 0, 0}};
  return shapes.at(rank);
}

std::int64_t end_of(const Piece& piece, int dim) {
  return piece.begin[dim] + piece.extent[dim];
}

bool overlap(const Piece& a, const Piece& b) {
  for (int i = 0; i < a.begin.rank(); ++i)
    if (end_of(a, i) <= b.begin[i] || end_of(b, i) <= a.begin[i]) return false;
  return true;
}

// The dim along which the pieces are cut into the most parts.
int most_cut_dim(const TensorLayout& tensor) {
  int best = 0;
  std::size_t most = 0;
  for (int i = 0; i < tensor.whole.rank(); ++i) {
    std::set<std::int64_t> begins;
    for (const auto& piece : tensor.pieces) begins.insert(piece.begin[i]);
    if (begins.size() > most) {
      most = begins.size();
      best = i;
    }
  }
  return best;
}

void check_inside(const std::string& path, const TensorLayout& tensor) {
  for (const auto& piece : tensor.pieces) {
    bool inside = piece.begin.rank() == tensor.whole.rank() &&
                  piece.extent.rank() == tensor.whole.rank();
    for (int i = 0; inside && i < tensor.whole.rank(); ++i)
      inside = piece.begin[i] >= 0 && end_of(piece, i) <= tensor.whole[i];
    require(inside, "checkpoint: the box of {} at {} of {} lies outside '{}' of {}",
            piece.extent, piece.begin, piece.file, path, tensor.whole);
  }
}

// No two boxes overlap: compared are those that meet along one dim, in sorted order.
void check_disjoint(const std::string& path, const TensorLayout& tensor) {
  const int dim = most_cut_dim(tensor);
  std::vector<const Piece*> sorted;
  for (const auto& piece : tensor.pieces) sorted.push_back(&piece);
  std::sort(sorted.begin(), sorted.end(), [&](const Piece* a, const Piece* b) {
    return a->begin[dim] < b->begin[dim];
  });
  for (std::size_t i = 0; i < sorted.size(); ++i)
    for (std::size_t j = i + 1;
         j < sorted.size() && sorted[j]->begin[dim] < end_of(*sorted[i], dim); ++j)
      require(!overlap(*sorted[i], *sorted[j]),
              "checkpoint: {} and {} both write a part of '{}' (boxes of {} at {} and of "
              "{} at {})",
              sorted[i]->file, sorted[j]->file, path, sorted[i]->extent, sorted[i]->begin,
              sorted[j]->extent, sorted[j]->begin);
}

// Disjoint boxes inside the tensor cover it when they have as many elements.
void check_coverage(const std::string& path, const TensorLayout& tensor) {
  check_inside(path, tensor);
  check_disjoint(path, tensor);
  std::int64_t written = 0;
  for (const auto& piece : tensor.pieces) written += piece.extent.elements();
  require(written == tensor.whole.elements(),
          "checkpoint: {} of the {} elements of '{}' are written by no rank",
          tensor.whole.elements() - written, tensor.whole.elements(), path);
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
  const Json json = Json::parse(text);
  ShardReport report;
  json.at("name").get_to(report.file.name);
  json.at("bytes").get_to(report.file.bytes);
  json.at("digest").get_to(report.file.digest);
  json.at("frame").get_to(report.file.frame);
  for (const auto& box : json.at("boxes")) {
    const Shape like = of_rank(box.at(3).size());
    report.boxes.push_back({box.at(0).get<std::string>(), box.at(1).get<std::string>(),
                            static_cast<DType>(box.at(2).get<int>()),
                            shape_of(box.at(3), like), shape_of(box.at(4), like),
                            shape_of(box.at(5), like), box.at(6).get<std::int64_t>(),
                            box.at(7).get<std::string>()});
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
  for (const auto& [path, tensor] : layout) check_coverage(path, tensor);
  return layout;
}

}  // namespace trireme::io
