// DeviceMap: reading, and what it says of each piece.
// SPDX-License-Identifier: Apache-2.0
#include "infer/device_map.hpp"

#include <algorithm>

#include "base/number.hpp"
#include "io/json_members.hpp"

namespace trireme::infer {
namespace {

constexpr int map_depth = 4;
constexpr int most_gpus = 1 << 16;

std::string name_of(const MapPlace& place) {
  if (place.tier == Tier::device) return format("gpu{}", place.gpu);
  return place.tier == Tier::host ? "cpu" : "disk";
}

// Whether a module or tensor has this tensor.
bool covers(std::string_view name, std::string_view tensor) {
  return name.empty() || name == tensor ||
         (tensor.starts_with(name) && tensor[name.size()] == '.');
}

// Tables of angles, which maps of transformers list and no file holds.
bool is_computed(std::string_view name) { return name.ends_with("rotary_emb"); }

}  // namespace

std::optional<MapPlace> place_named(std::string_view name) {
  if (name == "cpu") return MapPlace{Tier::host};
  if (name == "disk") return MapPlace{Tier::disk};
  for (const std::string_view prefix : {"gpu", "cuda:"})
    if (name.starts_with(prefix)) {
      name.remove_prefix(prefix.size());
      break;
    }
  const auto number = parse_number<int>(name);
  if (!number || *number < 0 || *number >= most_gpus) return {};
  return MapPlace{Tier::device, *number};
}

DeviceMap::DeviceMap(const std::string& text, const std::string& path) : path_(path) {
  const auto see = [&](const auto&, const std::string& name, const io::Json& value) {
    std::optional<MapPlace> place;
    if (value.is_string()) place = place_named(value.get<std::string>());
    if (value.is_number_integer()) place = place_named(value.dump());
    require(
        place.has_value(), Status::bad_content,
        "{}: '{}' lies at {}, which is no place: there are gpu0 (or 0), gpu1 ..., cpu "
        "and disk",
        path, name, value.dump().substr(0, 60));
    entries_.push_back({name, *place});
  };
  try {
    io::for_each_member(text, 1, map_depth, see);
  } catch (const io::JsonMistake& mistake) {
    fail(Status::bad_content, "{}: is no JSON object of names and places: {}", path,
         mistake.what());
  }
  require(
      !entries_.empty(), Status::bad_content,
      "{}: places nothing: give each part of the model a place, or \"\" for all of it",
      path);
}

const DeviceMap::Entry* DeviceMap::find(std::string_view tensor) const {
  const Entry* best = nullptr;
  for (const Entry& entry : entries_)
    if (covers(entry.name, tensor) &&
        (best == nullptr || entry.name.size() > best->name.size()))
      best = &entry;
  return best;
}

MapPlace DeviceMap::place_of(const Piece& piece, std::string_view head,
                             std::vector<bool>& used) const {
  const Entry* first = nullptr;
  std::vector<std::string> tensors = piece.tensors;
  if (piece.in_head_too) {
    const std::string tied = std::string(head) + ".weight";
    const Entry* entry = find(tied);
    if (entry != nullptr && !entry->name.empty()) tensors.push_back(tied);
  }
  for (const std::string& tensor : tensors) {
    const Entry* entry = find(tensor);
    require(
        entry != nullptr, Status::bad_content,
        "{}: there is no place for '{}' ({}): add its module, or \"\" for all that is "
        "not named",
        path_, tensor, piece.name);
    used[static_cast<std::size_t>(entry - entries_.data())] = true;
    if (first == nullptr) first = entry;
    require(entry->place == first->place, Status::bad_content,
            "{}: {} lies together, but '{}' is on {} and '{}' on {}: give both one place",
            path_, piece.in_head_too ? "the table of tied embeddings" : piece.name,
            first->name, name_of(first->place), entry->name, name_of(entry->place));
  }
  return first->place;
}

std::vector<Range> DeviceMap::stages_of(const std::vector<Piece>& pieces,
                                        const std::vector<MapPlace>& places,
                                        std::size_t stages) const {
  std::vector<Range> cut(stages);
  const std::int64_t layers = pieces.back().layer;
  int stage = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const MapPlace& place = places[i];
    if (place.tier != Tier::device) continue;
    const std::int64_t layer = pieces[i].layer;
    require(layer >= 0 || place.gpu == 0, Status::bad_content,
            "{}: '{}' is on {}: what begins the model lies on gpu0, cpu or disk", path_,
            pieces[i].name, name_of(place));
    require(layer < layers || place.gpu + 1 == static_cast<int>(stages),
            Status::bad_content,
            "{}: '{}' is on {}: what ends the model lies on gpu{}, cpu or disk", path_,
            pieces[i].name, name_of(place), stages - 1);
    if (layer < 0 || layer >= layers) continue;
    require(place.gpu >= stage, Status::bad_content,
            "{}: '{}' is on {}, behind a block on gpu{}: GPUs have blocks in their order",
            path_, pieces[i].name, name_of(place), stage);
    for (; stage < place.gpu; ++stage) {
      cut[static_cast<std::size_t>(stage)].end = layer;
      cut[static_cast<std::size_t>(stage) + 1].begin = layer;
    }
  }
  for (auto s = static_cast<std::size_t>(stage); s < stages; ++s) {
    cut[s].end = layers;
    if (s > static_cast<std::size_t>(stage)) cut[s].begin = layers;
  }
  for (std::size_t s = 0; s < stages; ++s)
    require(cut[s].count() > 0, Status::bad_content,
            "{}: gpu{} has no block, and each of the {} stages needs one", path_, s,
            stages);
  return cut;
}

Placement DeviceMap::place(std::vector<Piece> pieces, std::size_t stages, bool gpus,
                           std::string_view head) const {
  std::vector<bool> used(entries_.size(), false);
  std::vector<MapPlace> places;
  for (const Piece& piece : pieces) {
    const MapPlace place = place_of(piece, head, used);
    const bool on_gpu = place.tier == Tier::device;
    require(!on_gpu || gpus, Status::bad_content,
            "{}: '{}' is on {}, but this run computes on CPUs: write cpu or disk, or "
            "choose --device cuda",
            path_, piece.name, name_of(place));
    require(!on_gpu || place.gpu < static_cast<int>(stages), Status::bad_content,
            "{}: '{}' is on {}, but there are {} stages, whose GPUs are gpu0 to gpu{}: "
            "start more ranks with --pipeline",
            path_, piece.name, name_of(place), stages, stages - 1);
    places.push_back(place);
  }
  for (std::size_t i = 0; i < entries_.size(); ++i)
    require(used[i] || entries_[i].name.empty() || is_computed(entries_[i].name),
            Status::bad_content,
            "{}: '{}' is no part of the model: its parts are named as `trireme inspect "
            "MODEL --tensors` lists them, '{}' for one",
            path_, entries_[i].name, pieces.front().tensors.front());
  Placement placement{std::move(pieces), {}};
  std::vector<Range> cut;
  if (gpus) cut = stages_of(placement.pieces, places, stages);
  for (std::size_t s = 0; s < stages; ++s) {
    StagePlacement& stage = placement.stages.emplace_back();
    stage.blocks = gpus ? cut[s]
                        : split_range(placement.pieces.back().layer,
                                      static_cast<std::int64_t>(stages),
                                      static_cast<std::int64_t>(s));
    for (const MapPlace& place : places)
      stage.of_pieces.push_back(!gpus && place.tier == Tier::host ? Tier::device
                                                                  : place.tier);
    plan_stream_buffers(placement.pieces, stage, s == 0, s + 1 == stages, gpus);
  }
  return placement;
}

}  // namespace trireme::infer
