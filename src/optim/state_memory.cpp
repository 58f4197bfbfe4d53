// StateMemory: what is kept, how much of it is offloaded, and where it lies.
// SPDX-License-Identifier: Apache-2.0
#include "optim/state_memory.hpp"

#include <cmath>
#include <string_view>

namespace trireme::optim {
namespace {

constexpr std::array<std::string_view, 4> labels = {"master weights", "first moments",
                                                    "second moments", "weights"};

// Where offloading begins: the last flat parameter from which on there is enough.
std::int64_t first_offloaded(const StoreConfig& config, const FlatLayout& layout) {
  if (!config.offloads()) return layout.shard_elements;
  const std::int64_t all = layout.trained_shard_elements;
  const double wanted = std::ceil(config.offload_fraction * static_cast<double>(all));
  std::int64_t cut = 0;
  for (const FlatParameter& flat : layout.flats) {
    const auto left = static_cast<double>(all - flat.shard_begin);
    if (!flat.frozen && left >= wanted) cut = flat.shard_begin;
  }
  return cut;
}

}  // namespace

StateMemory::StateMemory(StoreContext& context, Device device) : context_(context) {
  const StoreConfig& config = context.config;
  cut_ = first_offloaded(config, context.layout);
  if (config.offload == Offload::disk_weights)
    choose(Kept::weight, TensorClass::weight, context.layout.shard_elements, false);
  if (config.training) choose_state();
  allocate(device);
}

void StateMemory::choose_state() {
  const StoreConfig& config = context_.config;
  const FlatLayout& layout = context_.layout;
  // The host updates a copy of its own even where the types are the same.
  const bool converts =
      config.type(TensorClass::weight) != config.type(TensorClass::master);
  if (converts || (config.offloads() && !moves_weights(config.offload)))
    choose(Kept::master, TensorClass::master,
           config.frozen_as_kept ? layout.trained_shard_elements : layout.shard_elements,
           converts);
  if (config.has_moment1())
    choose(Kept::moment1, TensorClass::moment1, layout.trained_shard_elements);
  if (config.has_moment2())
    choose(Kept::moment2, TensorClass::moment2, layout.elementwise_shard_elements);
}

void StateMemory::choose(Kept kept, TensorClass what, std::int64_t elements, bool home) {
  Part& part = parts_[static_cast<std::size_t>(kept)];
  part.exists = true;
  part.type = context_.config.type(what);
  part.home_elements = home ? std::min(cut_, elements) : 0;
  part.away_elements = std::max<std::int64_t>(elements - cut_, 0);
}

void StateMemory::allocate(Device device) {
  const bool on_disk = is_on_disk(context_.config.offload);
  std::vector<DiskWindows::State> states;
  std::int64_t away = 0;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    Part& part = parts_[i];
    if (part.home_elements > 0)
      part.home = flat_buffer(device, part.type, part.home_elements,
                              MemoryClass::optimizer, labels[i]);
    if (part.away_elements > 0 && !on_disk)
      part.away = flat_buffer(device, part.type, part.away_elements,
                              MemoryClass::offloaded, labels[i]);
    states.push_back({part.type, part.away_elements});
    away += part.away_elements;
  }
  if (on_disk && away > 0)
    disk_ = std::make_unique<DiskWindows>(context_, device, std::move(states));
}

bool StateMemory::has_master(const FlatParameter& flat) const {
  const Part& master = part(Kept::master);
  if (!master.exists || (flat.frozen && context_.config.frozen_as_kept)) return false;
  return flat.shard_begin >= cut_ || master.home_elements > 0;
}

TensorView StateMemory::shard(Kept kept, const FlatParameter& flat) const {
  const Part& here = part(kept);
  const std::int64_t count = flat.shard_elements();
  if (flat.shard_begin < cut_) return here.home.view().rows(flat.shard_begin, count);
  const TensorView away =
      disk_ ? disk_->mapped(static_cast<std::size_t>(kept)) : here.away.view();
  return away.rows(flat.shard_begin - cut_, count);
}

void StateMemory::add_readers(std::vector<StateBox>& boxes) const {
  if (!disk_) return;
  for (StateBox& box : boxes) box.fill = disk_->reader_of(box.data);
}

void StateMemory::start(Pass pass, const FlatParameter* flat) {
  if (!disk_ || (flat != nullptr && !offloads(*flat))) return;
  const std::int64_t begin = flat != nullptr ? flat->shard_begin : cut_;
  const std::int64_t end = flat != nullptr ? begin + flat->shard_elements()
                                           : context_.layout.trained_shard_elements;
  disk_->start({begin - cut_, end - cut_}, pass);
}

std::int64_t StateMemory::elements_per_window(const FlatParameter& flat,
                                              std::int64_t begin,
                                              std::int64_t count) const {
  if (!disk_ || !offloads(flat)) return count;
  return disk_->elements_per_window(flat.shard_begin + begin - cut_, count);
}

TensorView StateMemory::rows(Kept kept, const FlatParameter& flat, std::int64_t begin,
                             std::int64_t count) const {
  if (!disk_ || !offloads(flat)) return shard(kept, flat).rows(begin, count);
  return disk_->rows(static_cast<std::size_t>(kept), flat.shard_begin + begin - cut_,
                     count);
}

void StateMemory::finish() {
  if (disk_) disk_->finish();
}

void StateMemory::flush_mapping() {
  if (disk_) disk_->flush_mapping();
}

void StateMemory::flush_mapping_if_many(std::int64_t& written) {
  constexpr std::int64_t many = 1 << 23;
  if (written < many) return;
  flush_mapping();
  written = 0;
}

std::size_t StateMemory::bytes() const {
  std::size_t bytes = disk_bytes();
  for (const Part& part : parts_) bytes += part.home.bytes() + part.away.bytes();
  return bytes;
}

std::size_t StateMemory::resident_bytes() const {
  std::size_t bytes = 0;
  for (const Part& part : parts_) bytes += part.home.bytes();
  return bytes;
}

std::size_t StateMemory::disk_bytes() const {
  if (!disk_) return 0;
  std::size_t bytes = 0;
  for (const Part& part : parts_) bytes += away_bytes(part);
  return bytes - weight_bytes();
}

}  // namespace trireme::optim
