// ShardReads: which place a bucket gets, and the thread that fills it.
// SPDX-License-Identifier: Apache-2.0
#include "optim/shard_reads.hpp"

#include <algorithm>

#include "base/thread_signals.hpp"

namespace trireme::optim {

ShardReads::ShardReads(StoreContext& context, StateMemory& memory, Device device,
                       int places)
    : context_(context), memory_(memory), places_(static_cast<std::size_t>(places)) {
  std::int64_t most = 0;
  for (const Bucket& bucket : context.layout.buckets) {
    std::vector<Read>& reads = reads_.emplace_back();
    std::int64_t at = 0;
    for (const std::size_t f : bucket.flats) {
      const FlatParameter& flat = context.layout.flats[f];
      if (!memory.has_weights(flat)) continue;
      reads.push_back({f, memory.blocks_of(Kept::weight, flat), at});
      at += reads.back().blocks.bytes;
    }
    most = std::max(most, at);
  }
  if (most == 0) return;
  for (Place& place : places_) {
    place.copied = Event(device);
    place.memory = flat_buffer(device, DType::u8, most + ScratchFile::block,
                               MemoryClass::offloaded, "shards of weights from the disk");
  }
}

ShardReads::Place* ShardReads::place_of(int bucket) {
  const auto found =
      std::find_if(places_.begin(), places_.end(),
                   [&](const Place& place) { return place.bucket == bucket; });
  return found == places_.end() ? nullptr : &*found;
}

// One that is empty, rather one that is copied, else one that none of the buckets is in.
ShardReads::Place* ShardReads::place_without(const std::vector<int>& buckets) {
  for (Place& place : places_)
    if (place.bucket == -1 && place.copied.passed()) return &place;
  if (Place* empty = place_of(-1)) return empty;
  const auto found =
      std::find_if(places_.begin(), places_.end(), [&](const Place& place) {
        return std::find(buckets.begin(), buckets.end(), place.bucket) == buckets.end();
      });
  return found == places_.end() ? nullptr : &*found;
}

void ShardReads::start(Place& place, int bucket) {
  if (place.work.valid()) place.work.get();
  place.bucket = -1;
  place.copied.synchronize();
  if (!place.memory.view().device().is_meta()) {
    memory_.flush_mapping();
    for (const Read& read : reads_of(bucket))
      context_.traffic.from_disk += read.blocks.bytes;
    std::byte* const first = first_block_in(place.memory);
    place.work = std::async(std::launch::async, [this, bucket, first] {
      block_signals();
      use_signal_stack();
      for (const Read& read : reads_of(bucket))
        memory_.disk()->read(read.blocks, first + read.at);
    });
  }
  place.bucket = bucket;
}

void ShardReads::read_ahead(std::vector<int> buckets) {
  std::erase_if(buckets, [&](int bucket) { return reads_of(bucket).empty(); });
  buckets.resize(std::min(buckets.size(), places_.size()));
  for (const int bucket : buckets) {
    if (place_of(bucket) != nullptr) continue;
    Place* const place = place_without(buckets);
    // One that the device still copies from is read into when it is needed, or later: the
    // host would wait here before it has queued what the device is to do meanwhile.
    if (place != nullptr && place->copied.passed()) start(*place, bucket);
  }
}

TensorView ShardReads::shard(int bucket, const FlatParameter& flat) {
  Place* place = place_of(bucket);
  if (place == nullptr) {
    place = place_without({});
    start(*place, bucket);
  }
  if (place->work.valid()) place->work.get();
  const DType type = context_.config.type(TensorClass::weight);
  const Shape shape{flat.shard_elements()};
  const TensorView memory = place->memory.view();
  if (memory.device().is_meta()) return {nullptr, type, shape, Device::meta()};
  for (const Read& read : reads_of(bucket))
    if (read.flat == flat.index)
      return {first_block_in(place->memory) + read.at + read.blocks.lead, type, shape};
  fail(Status::internal, "'{}' is not in bucket {}", flat.name, bucket);
}

void ShardReads::release(int bucket, const Stream& stream) {
  Place* const place = place_of(bucket);
  if (place == nullptr) return;
  place->copied.record(stream);
  place->bucket = -1;
}

void ShardReads::forget() {
  for (Place& place : places_) {
    if (place.work.valid()) place.work.get();
    place.bucket = -1;
  }
}

std::size_t ShardReads::bytes() const {
  std::size_t bytes = 0;
  for (const Place& place : places_) bytes += place.memory.bytes();
  return bytes;
}

}  // namespace trireme::optim
