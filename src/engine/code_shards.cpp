// CodeShards: laying out codes as bytes, and gathering them.
// SPDX-License-Identifier: Apache-2.0
#include "engine/code_shards.hpp"

#include <algorithm>
#include <utility>

#include "base/device_memory.hpp"
#include "base/split.hpp"

namespace trireme::engine {
namespace {

constexpr std::int64_t aligned = 64;

std::int64_t room_for(std::size_t bytes) {
  return divide_up(static_cast<std::int64_t>(bytes), aligned) * aligned;
}

// The elements of `from` at `to` on the stream's device.
TensorView moved(Stream& stream, const TensorView& from, std::byte*& to,
                 CodeShards::Contents contents) {
  if (from.empty()) return {};
  const TensorView view(to, from.dtype(), from.shape(), stream.device());
  if (contents == CodeShards::Contents::copied) copy_bytes(stream, from, view);
  to += from.bytes();
  return view;
}

}  // namespace

CodeShards::CodeShards(comm::Mesh& mesh, Device device) : mesh_(mesh), device_(device) {}

void CodeShards::add(int module, bool expert, std::size_t bytes) {
  Module& module_codes = modules_[module];
  Part& part = expert ? module_codes.expert : module_codes.dense;
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

std::vector<CodeShards::Run> CodeShards::runs(bool expert) const {
  std::vector<Run> all;
  for (const auto& [number, module] : modules_)
    if ((expert ? module.expert : module.dense).bytes > 0)
      all.push_back({number, expert});
  return all;
}

comm::Group& CodeShards::group_of(const Run& run) const { return *part_of(run).group; }

OwnedCodes CodeShards::place(const Run& run, OwnedCodes codes, Contents contents) {
  Part& part = part_of(run);
  const std::int64_t room = room_for(codes.matrix.bytes());
  require(part.taken + room <= part.bytes, "more codes than were planned");
  auto* to = static_cast<std::byte*>(gathered_.view().raw()) + part.begin + part.taken;
  part.taken += room;
  CodedMatrix& matrix = codes.matrix;
  Stream stream(device_);
  matrix.scales = moved(stream, matrix.scales, to, contents);  // first, where f32 may lie
  matrix.zeros = moved(stream, matrix.zeros, to, contents);
  matrix.codes = moved(stream, matrix.codes, to, contents);
  for (Buffer* own : {&codes.codes, &codes.scales, &codes.zeros}) *own = Buffer();
  return codes;
}

// Through the host's memory: that of a GPU has no part in messages which no step has.
void CodeShards::scatter(const Run& run, int reader) {
  const Part& part = part_of(run);
  comm::Group& group = *part.group;
  const std::int64_t each = part.shard_bytes();
  const TensorView mine = shard_of(run);
  Stream stream(device_), host;
  here_ = -1;
  const bool reads = group.rank() == reader, far = !device_.is_host();
  Buffer passing;
  if (far)
    passing = Buffer(Device::host(), DType::u8, {reads ? part.bytes : each},
                     MemoryClass::data, "codes on their way");
  if (!reads) {
    const TensorView here = far ? passing.view() : mine;
    group.receive(host, here, reader).wait();
    if (far) copy_bytes(stream, here, mine);
    return;
  }
  TensorView all = gathered_.view().rows(part.begin, part.bytes);
  if (far) {
    copy_bytes(stream, all, passing.view());
    all = passing.view();
  }
  std::vector<comm::Handle> sent;
  for (int rank = 0; rank < group.size(); ++rank) {
    const TensorView theirs = all.rows(rank * each, each);
    if (rank == reader) {
      copy_bytes(stream, theirs, mine);
    } else {
      sent.push_back(group.send(host, theirs, rank));
    }
  }
  for (comm::Handle& handle : sent) handle.wait();
}

TensorView CodeShards::shard_of(const Run& run) const {
  const Part& part = part_of(run);
  return shards_.view().rows(part.shard_begin, part.shard_bytes());
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
