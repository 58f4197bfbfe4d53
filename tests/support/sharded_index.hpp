// Indices of shards as FULL_SHARD makes them, for any number of ranks, without ranks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "io/checkpoint_index.hpp"
#include "io/checkpoint_shard.hpp"

namespace trireme::test {

// Shapes of a model like Llama; the default is one of 70 billion parameters.
struct ShardedModel {
  std::int64_t layers = 80, hidden = 8192, keys = 1024, feed_forward = 28672,
               vocabulary = 32000;
};

struct NamedShape {
  std::string name;
  Shape shape;
};

// The tensors of each unit, a block or what is outside the blocks.
inline std::vector<std::vector<NamedShape>> units_of(const ShardedModel& model) {
  const std::int64_t H = model.hidden, K = model.keys, F = model.feed_forward;
  std::vector<std::vector<NamedShape>> units = {
      {{"model.embed_tokens.weight", {model.vocabulary, H}}}};
  for (std::int64_t i = 0; i < model.layers; ++i) {
    const std::string layer = format("model.layers.{}.", i);
    units.push_back({{layer + "input_layernorm.weight", {H}},
                     {layer + "mlp.down_proj.weight", {H, F}},
                     {layer + "mlp.gate_proj.weight", {F, H}},
                     {layer + "mlp.up_proj.weight", {F, H}},
                     {layer + "post_attention_layernorm.weight", {H}},
                     {layer + "self_attn.k_proj.weight", {K, H}},
                     {layer + "self_attn.o_proj.weight", {H, H}},
                     {layer + "self_attn.q_proj.weight", {H, H}},
                     {layer + "self_attn.v_proj.weight", {K, H}}});
  }
  units.push_back(
      {{"lm_head.weight", {model.vocabulary, H}}, {"model.norm.weight", {H}}});
  return units;
}

// The boxes that elements `begin` to before `end` of a tensor are: a part of a row, whole
// rows, a part of a row.
inline std::vector<io::BoxRecord> boxes_of_range(const Shape& whole, std::int64_t begin,
                                                 std::int64_t end) {
  std::vector<io::BoxRecord> boxes;
  const auto add = [&](const Shape& first, const Shape& extent) {
    io::BoxRecord box;
    box.begin = first;
    box.extent = extent;
    boxes.push_back(box);
  };
  if (whole.rank() == 1) {
    add({begin}, {end - begin});
    return boxes;
  }
  const std::int64_t width = whole[1];
  while (begin < end) {
    const std::int64_t row = begin / width, column = begin % width;
    const std::int64_t rows = column == 0 ? (end - begin) / width : 0;
    const std::int64_t count =
        rows > 0 ? rows * width : std::min(end - begin, width - column);
    add({row, column}, {std::max<std::int64_t>(rows, 1), rows > 0 ? width : count});
    begin += count;
  }
  return boxes;
}

// The index of a manifest whose tensors are in any order.
inline std::string sorted_index(const io::Manifest& given) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < given.tensors.size(); ++i) order.push_back(i);
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return given.tensors[a].path < given.tensors[b].path;
  });
  io::Manifest sorted;
  sorted.files = given.files;
  for (const std::size_t from : order) {
    sorted.boxes.add_tensor(given.tensors[from].shape.rank(), given.boxes.count(from));
    for (std::size_t b = 0; b < given.boxes.count(from); ++b)
      sorted.boxes.set(sorted.tensors.size(), b, given.boxes.get(from, b));
    sorted.tensors.push_back(given.tensors[from]);
  }
  return io::index_bytes(sorted);
}

// What rank `rank` of `ranks` reports: its part of each unit, of weights and two moments.
inline std::string shard_index(const ShardedModel& model, int rank, int ranks) {
  io::Manifest shard;
  shard.files.push_back(
      {io::shard_path(rank, ranks), 0, std::string(32, '1'), std::string(32, '2')});
  std::int64_t offset = 2048;
  for (const std::string& state :
       {std::string("model/"), std::string("optimizer/moment1/"),
        std::string("optimizer/moment2/")}) {
    for (const auto& unit : units_of(model)) {
      std::int64_t elements = 0;
      for (const auto& tensor : unit) elements += tensor.shape.elements();
      const std::int64_t first = elements * rank / ranks;
      const std::int64_t last = elements * (rank + 1) / ranks;
      std::int64_t at = 0;  // of the tensor in the unit
      for (const auto& tensor : unit) {
        const std::int64_t count = tensor.shape.elements();
        const std::int64_t begin = std::clamp<std::int64_t>(first - at, 0, count);
        const std::int64_t end = std::clamp<std::int64_t>(last - at, 0, count);
        at += count;
        if (begin == end) continue;
        const auto boxes = boxes_of_range(tensor.shape, begin, end);
        const std::size_t number = shard.tensors.size();
        shard.boxes.add_tensor(tensor.shape.rank(), boxes.size());
        shard.tensors.push_back({state + tensor.name, DType::f32, tensor.shape, ""});
        for (std::size_t i = 0; i < boxes.size(); ++i) {
          io::BoxRecord box = boxes[i];
          box.offset = offset;
          box.digest[0] = static_cast<unsigned char>(rank);
          offset += box.extent.elements() * 4;
          shard.boxes.set(number, i, box);
        }
      }
    }
  }
  shard.files[0].bytes = offset;
  return sorted_index(shard);
}

}  // namespace trireme::test
