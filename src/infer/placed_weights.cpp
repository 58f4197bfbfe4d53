// PlacedWeights: places, what passes through them, and when.
// SPDX-License-Identifier: Apache-2.0
#include "infer/placed_weights.hpp"

#include <algorithm>
#include <utility>

#include "base/device_memory.hpp"
#include "base/thread_signals.hpp"
#include "io/param_codes.hpp"

namespace trireme::infer {
namespace {

Tier tier_of(const Param& param, const std::map<std::string, Tier>& tiers) {
  const auto found = tiers.find(param.boxes.front().tensor);
  require(found != tiers.end(), "'{}' has no place", param.name);
  return found->second;
}

TensorView view_at(const TensorView& bytes, std::size_t offset, DType dtype,
                   const Shape& shape) {
  return {static_cast<std::byte*>(bytes.raw()) + offset, dtype, shape, bytes.device()};
}

}  // namespace

PlacedWeights::PlacedWeights(model::Stage& stage,
                             const std::map<std::string, Tier>& tiers,
                             const io::TensorSource& source, Device device, DType compute,
                             model::CodedWeights* codes)
    : source_(source),
      device_(device),
      compute_(compute),
      codes_(codes),
      first_module_(stage.config().first_module),
      copies_(device) {
  if (codes_ != nullptr) take_codes(stage.modules(), tiers);
  for (Param* param : stage.parameters())
    if (const Tier tier = tier_of(*param, tiers);
        tier != Tier::disk && !codes_of_.contains(param))
      keep(*param, tier, source);
  for (const ParamModule& module : stage.modules()) add_module(module, tiers);
  make_places();
}

PlacedWeights::~PlacedWeights() = default;

void PlacedWeights::take_codes(const std::vector<ParamModule>& modules,
                               const std::map<std::string, Tier>& tiers) {
  int number = first_module_;
  for (const ParamModule& module : modules) {
    for (Param* param : module.params) {
      const std::size_t bytes = io::kept_code_bytes(source_, *param);
      if (bytes == 0) continue;
      const bool passes = tier_of(*param, tiers) == Tier::disk;
      std::vector<PlacedCodes> boxes;
      if (!passes) boxes = read_codes(*param);
      WeightCodes& codes = codes_->add(number, *param, std::move(boxes), bytes);
      codes_of_[param] = passes ? &codes : nullptr;
    }
    ++number;
  }
  if (!codes_->empty()) codes_->allocate();
}

std::vector<PlacedCodes> PlacedWeights::read_codes(const Param& param) const {
  return io::read_param_codes(dynamic_cast<const io::CodeSource&>(source_), param);
}

void PlacedWeights::keep(Param& param, Tier tier, const io::TensorSource& source) {
  Buffer& buffer = kept_[&param];
  buffer = tier == Tier::host
               ? Buffer::pinned(compute_, param.shape, MemoryClass::offloaded, param.name)
               : Buffer(device_, compute_, param.shape, MemoryClass::weights, param.name);
  io::read_param(source, param, buffer.view());
  param.value = buffer.view();
}

void PlacedWeights::add_module(const ParamModule& module,
                               const std::map<std::string, Tier>& tiers) {
  Module& here = modules_.emplace_back();
  for (Param* param : module.params) {
    const Tier tier = tier_of(*param, tiers);
    if (tier == Tier::device) continue;
    if (const auto coded = codes_of_.find(param); coded != codes_of_.end()) {
      Passing passing{.param = param};
      passing.codes = coded->second;
      here.passing.push_back(passing);
      here.reads = true;
      continue;
    }
    const auto bytes =
        static_cast<std::int64_t>(size_of(compute_)) * param->shape.elements();
    const auto taken = static_cast<std::size_t>(place_bytes(bytes));
    Passing passing{param, tier, here.bytes, here.disk_bytes};
    if (tier == Tier::host) passing.waiting = kept_.at(param).view();
    here.bytes += taken;
    if (tier == Tier::disk) {
      here.disk_bytes += taken;
      here.reads = true;
    }
    here.passing.push_back(passing);
  }
}

void PlacedWeights::make_places() {
  const auto passing = std::count_if(modules_.begin(), modules_.end(),
                                     [](const Module& m) { return !m.passing.empty(); });
  std::size_t bytes = 0, disk_bytes = 0;
  for (const Module& module : modules_) {
    bytes = std::max(bytes, module.bytes);
    disk_bytes = std::max(disk_bytes, module.disk_bytes);
  }
  two_places_ = passing > 1;
  for (auto i = 0; i < std::min<std::ptrdiff_t>(passing, 2); ++i) {
    Place& place = places_[static_cast<std::size_t>(i)];
    if (bytes > 0)
      place.memory = Buffer(device_, DType::u8, {static_cast<std::int64_t>(bytes)},
                            MemoryClass::weights, "weights that pass through");
    if (device_.is_cuda() && disk_bytes > 0)
      place.staging = Buffer::pinned(DType::u8, {static_cast<std::int64_t>(disk_bytes)},
                                     MemoryClass::offloaded, "weights from the disk");
    place.copied = Event(device_);
    place.used = Event(device_);
  }
  // Shapes, for passes that are only measured.
  for (const Module& module : modules_) bind(places_.front(), module);
}

void PlacedWeights::bind(const Place& place, const Module& module) {
  for (const Passing& one : module.passing)
    if (one.codes == nullptr) one.param->value = in_place(place, one);
}

TensorView PlacedWeights::in_place(const Place& place, const Passing& passing) const {
  return view_at(place.memory.view(), passing.offset, compute_, passing.param->shape);
}

void PlacedWeights::read_disk(const Place& place, const Module& module) {
  for (const Passing& one : module.passing) {
    if (one.tier != Tier::disk) continue;
    if (one.codes != nullptr) {
      one.codes->boxes = read_codes(*one.param);
      continue;
    }
    const TensorView value =
        device_.is_cuda()
            ? view_at(place.staging.view(), one.disk_offset, compute_, one.param->shape)
            : in_place(place, one);
    io::read_param(source_, *one.param, value);
  }
}

void PlacedWeights::drop_codes(const Module& module) {
  for (const Passing& one : module.passing)
    if (one.codes != nullptr) one.codes->boxes.clear();
}

void PlacedWeights::copy(Place& place, const Module& module, Tier tier) {
  if (!device_.is_cuda()) return;
  for (const Passing& one : module.passing) {
    if (one.tier != tier) continue;
    const TensorView from =
        tier == Tier::host
            ? one.waiting
            : view_at(place.staging.view(), one.disk_offset, compute_, one.param->shape);
    copy_bytes(copies_.stream(), from, in_place(place, one));
  }
}

void PlacedWeights::start(Place& place, int module) {
  const Module& coming = modules_[static_cast<std::size_t>(module)];
  if (place.module >= 0) drop_codes(modules_[static_cast<std::size_t>(place.module)]);
  place.module = module;
  under_way_ = &place;
  // What was copied from the staging memory has left it, and what ran on the place is
  // through with it, before others come.
  place.copied.synchronize();
  place.used.hold(copies_.stream());
  copy(place, coming, Tier::host);
  if (coming.reads)
    reading_ = std::async(std::launch::async, [this, &place, &coming] {
      block_signals();
      use_signal_stack();
      read_disk(place, coming);
    });
}

void PlacedWeights::arrive(Place& place) {
  const int module = std::exchange(place.module, -1);
  under_way_ = nullptr;
  if (reading_.valid()) reading_.get();
  copy(place, modules_[static_cast<std::size_t>(module)], Tier::disk);
  place.copied.record(copies_.stream());
  place.module = module;
}

PlacedWeights::Place& PlacedWeights::bring(int module) {
  for (Place& place : places_)
    if (place.module == module) {
      if (under_way_ == &place) arrive(place);
      return place;
    }
  if (under_way_ != nullptr) arrive(*under_way_);
  Place& place =
      in_use_ == &places_.front() && two_places_ ? places_.back() : places_.front();
  start(place, module);
  arrive(place);
  return place;
}

int PlacedWeights::behind(int module) const {
  const auto count = static_cast<int>(modules_.size());
  int next = module;
  do next = (next + 1) % count;
  while (modules_[static_cast<std::size_t>(next)].passing.empty());
  return next;
}

void PlacedWeights::fetch(int module, Direction direction) {
  const int index = module - first_module_;
  if (!idle_) fetch_passing(index);
  if (codes_ == nullptr) return;
  if (idle_)
    codes_->show(module);
  else
    codes_->fetch(module, direction);
}

void PlacedWeights::fetch_passing(int index) {
  const Module& here = modules_.at(static_cast<std::size_t>(index));
  if (here.passing.empty()) return;
  Place& place = bring(index);
  in_use_ = &place;
  Stream stream(device_);
  place.copied.hold(stream);
  bind(place, here);
  const int next = behind(index);
  const bool there = std::any_of(places_.begin(), places_.end(),
                                 [&](const Place& one) { return one.module == next; });
  if (there || under_way_ != nullptr) return;
  start(&place == &places_.front() ? places_.back() : places_.front(), next);
}

void PlacedWeights::release(int module) {
  const auto index = static_cast<std::size_t>(module - first_module_);
  if (idle_ || modules_.at(index).passing.empty()) return;
  in_use_->used.record(Stream(device_));
}

}  // namespace trireme::infer
