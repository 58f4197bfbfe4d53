// CodeShards: laying out codes as bytes, and gathering them.
// SPDX-License-Identifier: Apache-2.0
#include "engine/code_shards.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/split.hpp"

namespace trireme::engine {
namespace {

constexpr std::int64_t aligned = 64;

std::int64_t room_for(std::size_t bytes) {
  return divide_up(static_cast<std::int64_t>(bytes), aligned) * aligned;
}

// The bytes of `from` at `to`, seen as from's elements.
TensorView moved(const TensorView& from, std::byte*& to) {
  if (from.empty()) return {};
  std::memcpy(to, from.raw(), from.bytes());
  const TensorView view(to, from.dtype(), from.shape());
  to += from.bytes();
  return view;
}

}  // namespace

CodeShards::CodeShards(comm::Mesh& mesh, Device device) : mesh_(mesh), device_(device) {}

void CodeShards::add(int module, bool expert, std::size_t bytes) {
  Module& of = modules_[module];
  Part& part = expert ? of.expert : of.dense;
  part.group = expert ? &mesh_.expert_shards() : &mesh_.shards();
  part.bytes += room_for(bytes);
}

void CodeShards::allocate() {
  std::int64_t kept = 0, most = 0;
  for (auto& [number, module] : modules_) {
    std::int64_t begin = 0;
    each_part(module, [&](Part& part) {
      const std::int64_t quantum = aligned * part.group->size();
      part.bytes = divide_up(part.bytes, quantum) * quantum;
      part.shard_begin = kept;
      part.begin = begin;
      kept += part.shard_bytes();
      begin += part.bytes;
    });
    most = std::max(most, begin);
  }
  shards_ = Buffer(device_, DType::u8, {kept}, MemoryClass::weights, "shards of codes");
  gathered_ = Buffer(device_, DType::u8, {most}, MemoryClass::weights, "gathered codes");
}

OwnedCodes CodeShards::take(int module, bool expert, OwnedCodes codes) {
  Module& of = modules_.at(module);
  Part& part = expert ? of.expert : of.dense;
  const std::int64_t room = room_for(codes.matrix.bytes());
  require(part.taken + room <= part.bytes, "more codes than were planned");
  auto* to = static_cast<std::byte*>(gathered_.view().raw()) + part.begin + part.taken;
  part.taken += room;
  CodedMatrix& matrix = codes.matrix;
  matrix.scales = moved(matrix.scales, to);  // first, where f32 may lie
  matrix.zeros = moved(matrix.zeros, to);
  matrix.codes = moved(matrix.codes, to);
  for (Buffer* own : {&codes.codes, &codes.scales, &codes.zeros}) *own = Buffer();
  return codes;
}

void CodeShards::keep(int module) {
  const auto found = modules_.find(module);
  if (found == modules_.end()) return;
  each_part(found->second, [&](Part& part) {
    const std::int64_t mine = part.shard_bytes();
    std::memcpy(shards_.view().rows(part.shard_begin, mine).raw(),
                gathered_.view().rows(part.begin + part.group->rank() * mine, mine).raw(),
                static_cast<std::size_t>(mine));
  });
  here_ = module;
}

void CodeShards::gather(int module) {
  const auto found = modules_.find(module);
  if (found == modules_.end() || here_ == module) return;
  Stream stream(device_);
  each_part(found->second, [&](Part& part) {
    part.group
        ->all_gather(stream, shards_.view().rows(part.shard_begin, part.shard_bytes()),
                     gathered_.view().rows(part.begin, part.bytes))
        .wait();
  });
  here_ = module;
}

}  // namespace trireme::engine
