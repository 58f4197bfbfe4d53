// DeviceMap: a JSON file that says where each part of a model lies.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "infer/placement.hpp"

namespace trireme::infer {

// The GPUs of a stage (`gpu`), host memory or the disk.
struct MapPlace {
  Tier tier = Tier::device;
  int gpu = 0;
  bool operator==(const MapPlace&) const = default;
};

// "gpu0", "cuda:0", "0", "cpu", "disk"; nothing for any other name.
std::optional<MapPlace> place_named(std::string_view name);

// An object as the device maps of accelerate are: names of modules or tensors, and the
// place of each. The longest name that a tensor has, or begins with, counts; "" is all.
class DeviceMap {
 public:
  // text: the file's. Throws Error(bad_content) that says what is wrong with it.
  DeviceMap(const std::string& text, const std::string& path);

  // `gpus`: ranks compute on GPUs, of as many stages. Without, host memory is where they
  // compute. A block that is not on a GPU belongs to the stage of the block before it.
  // head: the name of the head's module, which may name tied weights a second time.
  // Throws Error(bad_content): a part without a place, a block or tied weights with
  // several, a name that is no part of the model, a GPU that is not there, stages in
  // another order than blocks, or without a block.
  Placement place(std::vector<Piece> pieces, std::size_t stages, bool gpus,
                  std::string_view head) const;

 private:
  struct Entry {
    std::string name;
    MapPlace place;
  };
  MapPlace place_of(const Piece& piece, std::string_view head,
                    std::vector<bool>& used) const;
  const Entry* find(std::string_view tensor) const;
  std::vector<Range> stages_of(const std::vector<Piece>& pieces,
                               const std::vector<MapPlace>& places,
                               std::size_t stages) const;

  std::string path_;
  std::vector<Entry> entries_;
};

}  // namespace trireme::infer
