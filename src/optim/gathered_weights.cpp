// GatheredWeights: gathering ahead, converting, and binding the values of Params.
// SPDX-License-Identifier: Apache-2.0
#include "optim/gathered_weights.hpp"

#include <algorithm>

#include "kernels/elementwise.hpp"
#include "optim/plan_flight.hpp"

namespace trireme::optim {

GatheredWeights::GatheredWeights(StoreContext& context, StateScales& scales,
                                 StateMemory& memory, Device device)
    : context_(context),
      scales_(scales),
      memory_(memory),
      arriving_(context.layout.flats.size()) {
  const StoreConfig& config = context.config;
  const FlatLayout& layout = context.layout;
  const bool offloaded = config.offload == Offload::weights;
  const std::int64_t kept =
      config.shards_weights() ? memory.other_weights() : layout.unsharded_elements;
  if (kept > 0)
    weights_ =
        flat_buffer(device, config.type(TensorClass::weight), kept,
                    offloaded ? MemoryClass::offloaded : MemoryClass::weights, "weights");
  if (config.offload == Offload::disk_weights)
    reads_.emplace(context, memory, device,
                   layout.most_buckets - 1 + std::max(config.prefetch, 1));
  if (config.fetches_weights()) {
    allocate_buffers(device);
  } else {
    bind_whole();
  }
}

void GatheredWeights::allocate_buffers(Device device) {
  const StoreConfig& config = context_.config;
  std::int64_t most = 0;
  for (const Bucket& bucket : context_.layout.buckets)
    most = std::max(most, bucket.elements);
  const int needed = context_.layout.most_buckets;
  const int buffers =
      config.gathered_units > 0 ? config.gathered_units : needed + config.prefetch;
  require(buffers >= needed, Status::bad_content,
          "parallel.gathered_units = {} is too few: a module with a tied table needs {}",
          buffers, needed);
  const std::vector<std::int64_t> capacities(static_cast<std::size_t>(buffers), most);
  const std::int64_t elements = make_buffers(capacities, buffers_);
  if (moves_weights(config.offload)) {
    order_ = Event(device);
    for (int i = 0; i < buffers; ++i) copies_.push_back({SideStream(device)});
  }
  gathered_ = Buffer(device, config.bound_type(), {elements}, MemoryClass::weights,
                     "gathered weights");
  if (config.shards_weights() && config.converts_weights())
    wire_ = Buffer(device, config.type(TensorClass::weight), {elements},
                   MemoryClass::weights, "weights as they are gathered");
}

void GatheredWeights::bind_whole() {
  for (const FlatParameter& flat : context_.layout.flats) {
    const TensorView whole = unsharded_in(weights_, flat);
    for (const ParameterView& view : flat.views)
      view.param->value =
          whole.rows(view.begin, view.elements).reshape(view.param->shape);
  }
}

TensorView GatheredWeights::shard(const FlatParameter& flat) const {
  if (memory_.has_weights(flat)) return memory_.shard(Kept::weight, flat);
  return context_.config.shards_weights() ? shard_in(weights_, flat)
                                          : shard_of_unsharded(weights_, flat);
}

void GatheredWeights::all_gather(const FlatParameter& flat) {
  if (context_.config.shards_weights()) return;
  arriving_[flat.index] = flat.shard_group->all_gather(context_.stream, shard(flat),
                                                       unsharded_in(weights_, flat));
}

void GatheredWeights::wait() {
  for (comm::Handle& handle : arriving_) handle.wait();
  for (Copies& copies : copies_) copies.stream.stream().synchronize();
}

void GatheredWeights::wait(int bucket) {
  for (const std::size_t f : context_.layout.bucket(bucket).flats) arriving_[f].wait();
}

int GatheredWeights::under_way() const {
  return static_cast<int>(
      std::count_if(arriving_.begin(), arriving_.end(),
                    [](const comm::Handle& handle) { return !handle.empty(); }));
}

BucketBuffer* GatheredWeights::buffer_of(int bucket) {
  for (BucketBuffer& buffer : buffers_) {
    if (buffer.bucket == bucket) return &buffer;
  }
  return nullptr;
}

// The buffer that nobody uses and that was used longest ago, before the given time.
BucketBuffer* GatheredWeights::idle_buffer(std::int64_t before) {
  BucketBuffer* oldest = nullptr;
  for (BucketBuffer& buffer : buffers_) {
    if (buffer.users > 0 || buffer.last_use >= before) continue;
    if (oldest == nullptr || buffer.last_use < oldest->last_use) oldest = &buffer;
  }
  return oldest;
}

// An empty view unbinds.
void GatheredWeights::bind(int bucket, const TensorView& memory) {
  std::int64_t begin = 0;
  for (const std::size_t f : context_.layout.bucket(bucket).flats) {
    const FlatParameter& flat = context_.layout.flats[f];
    for (const ParameterView& view : flat.views) {
      view.param->value =
          memory.shape().rank() == 0
              ? TensorView()
              : memory.rows(begin + view.begin, view.elements).reshape(view.param->shape);
    }
    begin += flat.elements;
  }
}

void GatheredWeights::start_gather(BucketBuffer& buffer, int bucket) {
  if (buffer.bucket >= 0) {
    finish_gather(buffer);
    bind(buffer.bucket, {});
  }
  buffer.bucket = bucket;
  buffer.last_use = clock_;
  buffer.finished = false;
  buffer.handles.clear();
  const StoreConfig& config = context_.config;
  if (!config.shards_weights()) return;
  const TensorView memory =
      memory_of(buffer, config.converts_weights() ? wire_ : gathered_);
  if (!copies_.empty()) {
    order_.record(context_.stream);  // behind whoever used the buffer
    order_.hold(copies_to(buffer).stream.stream());
  }
  std::int64_t begin = 0;
  for (const std::size_t f : context_.layout.bucket(bucket).flats) {
    const FlatParameter& flat = context_.layout.flats[f];
    buffer.handles.push_back(gather(buffer, flat, memory.rows(begin, flat.elements)));
    begin += flat.elements;
  }
  if (reads_) reads_->release(bucket, copies_to(buffer).stream.stream());
  const auto held = std::count_if(buffers_.begin(), buffers_.end(),
                                  [](const BucketBuffer& b) { return b.bucket >= 0; });
  peak_gathered_ = std::max(peak_gathered_, static_cast<int>(held));
}

bool GatheredWeights::is_away(const FlatParameter& flat) const {
  return memory_.has_weights(flat) || context_.config.offload == Offload::weights;
}

// This rank's shard is sent from where it is kept on the device. From the host it comes
// to its place among all first, and the messages start behind that copy.
comm::Handle GatheredWeights::gather(const BucketBuffer& buffer,
                                     const FlatParameter& flat,
                                     const TensorView& unsharded) {
  comm::Group& group = *flat.shard_group;
  if (!is_away(flat)) return group.all_gather(context_.stream, shard(flat), unsharded);
  Copies& copies = copies_to(buffer);
  Stream& stream = copies.stream.stream();
  const TensorView place = unsharded.rows(flat.shard().begin, flat.shard_elements());
  const TensorView kept =
      memory_.has_weights(flat) ? reads_->shard(buffer.bucket, flat) : shard(flat);
  copy_bytes(stream, kept, place);
  copies.flight = fly(place.device(), host_copies, place.bytes());
  context_.traffic.to_device += static_cast<std::int64_t>(place.bytes());
  return group.all_gather(stream, place, unsharded);
}

void GatheredWeights::finish_gather(BucketBuffer& buffer) {
  if (buffer.finished) return;
  if (!copies_.empty()) wait_in_plan(context_.stream.device(), copies_to(buffer).flight);
  for (auto& handle : buffer.handles) handle.wait();
  if (!copies_.empty()) {
    order_.record(copies_to(buffer).stream.stream());
    order_.hold(context_.stream);
  }
  wait(buffer.bucket);
  buffer.finished = true;
  const StoreConfig& config = context_.config;
  if (!config.converts_weights()) return;
  std::int64_t begin = 0;
  for (const std::size_t f : context_.layout.bucket(buffer.bucket).flats) {
    const FlatParameter& flat = context_.layout.flats[f];
    const TensorView kept = config.shards_weights()
                                ? memory_of(buffer, wire_).rows(begin, flat.elements)
                                : unsharded_in(weights_, flat);
    convert(flat, kept, memory_of(buffer, gathered_).rows(begin, flat.elements));
    begin += flat.elements;
  }
}

// used = kept in the type of the modules, for the whole flat parameter.
void GatheredWeights::convert(const FlatParameter& flat, const TensorView& kept,
                              const TensorView& used) {
  if (!scales_.has(Scaled::weight)) return kernels::copy(context_.stream, kept, used);
  scales_.decode_weights(flat, kept, used);
}

void GatheredWeights::fetch(int module, Direction direction) {
  const std::vector<int>& buckets = context_.layout.module_buckets(module);
  if (!context_.config.fetches_weights()) {
    for (const int bucket : buckets) wait(bucket);
    return;
  }
  const std::int64_t start = ++clock_;
  // 1. This module: first those that are here, so that they are not given up.
  for (const int bucket : buckets) {
    if (BucketBuffer* buffer = buffer_of(bucket)) ++buffer->users;
  }
  for (const int bucket : buckets) {
    if (buffer_of(bucket) != nullptr) continue;
    BucketBuffer* buffer = idle_buffer(start);
    require(buffer != nullptr, "no memory to gather the weights of module {}", module);
    start_gather(*buffer, bucket);
    ++buffer->users;
  }
  // 2. The next ones, into what memory is left.
  fetch_ahead(module, direction, start);
  read_ahead(module, direction);
  // 3. Now this module's must have come.
  for (const int bucket : buckets) {
    BucketBuffer& buffer = *buffer_of(bucket);
    buffer.last_use = clock_;
    finish_gather(buffer);
    bind(bucket, memory_of(buffer, gathered_));
  }
}

void GatheredWeights::fetch_ahead(int module, Direction direction, std::int64_t start) {
  const int step = direction == Direction::forward ? 1 : -1;
  const int modules = static_cast<int>(context_.layout.buckets_of_module.size());
  for (int ahead = 1; ahead <= context_.config.prefetch; ++ahead) {
    const int next = module + step * ahead;
    if (next < 0 || next >= modules) break;
    for (const int bucket : context_.layout.module_buckets(next)) {
      if (BucketBuffer* here = buffer_of(bucket)) {
        here->last_use = clock_;
        continue;
      }
      if (BucketBuffer* buffer = idle_buffer(start)) start_gather(*buffer, bucket);
    }
  }
}

// From the disk come the modules behind those that are gathered ahead.
void GatheredWeights::read_ahead(int module, Direction direction) {
  if (!reads_) return;
  const int step = direction == Direction::forward ? 1 : -1;
  const int modules = static_cast<int>(context_.layout.buckets_of_module.size());
  std::vector<int> wanted;
  for (int ahead = 1; ahead <= context_.config.prefetch + reads_->places(); ++ahead) {
    const int next = module + step * ahead;
    if (next < 0 || next >= modules) break;
    for (const int bucket : context_.layout.module_buckets(next))
      if (buffer_of(bucket) == nullptr) wanted.push_back(bucket);
  }
  reads_->read_ahead(wanted);
}

void GatheredWeights::release(int module) {
  if (!context_.config.fetches_weights()) return;
  for (const int bucket : context_.layout.module_buckets(module)) {
    BucketBuffer* buffer = buffer_of(bucket);
    require(buffer != nullptr && buffer->users > 0, "module {} was not fetched", module);
    --buffer->users;
  }
}

void GatheredWeights::forget() {
  if (reads_) reads_->forget();
  drop();
  wait();
}

void GatheredWeights::drop() {
  for (BucketBuffer& buffer : buffers_) {
    require(buffer.users == 0, "weights are given up while a module uses them");
    finish_gather(buffer);
    if (buffer.bucket >= 0) bind(buffer.bucket, {});
    buffer.bucket = -1;
    buffer.last_use = 0;
  }
}

}  // namespace trireme::optim
