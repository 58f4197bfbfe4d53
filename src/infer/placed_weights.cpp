// PlacedWeights: its two stream buffers, what is read into them, and when.
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
  make_buffers();
}

PlacedWeights::~PlacedWeights() = default;

void PlacedWeights::take_codes(const std::vector<ParamModule>& modules,
                               const std::map<std::string, Tier>& tiers) {
  int number = first_module_;
  for (const ParamModule& module : modules) {
    for (Param* param : module.params) {
      const std::size_t bytes = io::kept_code_bytes(source_, *param);
      if (bytes == 0) continue;
      const bool is_streamed = tier_of(*param, tiers) == Tier::disk;
      std::vector<PlacedCodes> boxes;
      if (!is_streamed) boxes = read_codes(*param);
      WeightCodes& codes = codes_->add(number, *param, std::move(boxes), bytes);
      codes_of_[param] = is_streamed ? &codes : nullptr;
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
      StreamedParam streamed{.param = param};
      streamed.codes = coded->second;
      here.streamed.push_back(streamed);
      here.reads = true;
      continue;
    }
    const auto bytes =
        static_cast<std::int64_t>(size_of(compute_)) * param->shape.elements();
    const auto taken = static_cast<std::size_t>(buffer_bytes(bytes));
    StreamedParam streamed{param, tier, here.bytes, here.disk_bytes};
    if (tier == Tier::host) streamed.host_copy = kept_.at(param).view();
    here.bytes += taken;
    if (tier == Tier::disk) {
      here.disk_bytes += taken;
      here.reads = true;
    }
    here.streamed.push_back(streamed);
  }
}

void PlacedWeights::make_buffers() {
  const auto streamed =
      std::count_if(modules_.begin(), modules_.end(),
                    [](const Module& m) { return !m.streamed.empty(); });
  std::size_t bytes = 0, disk_bytes = 0;
  for (const Module& module : modules_) {
    bytes = std::max(bytes, module.bytes);
    disk_bytes = std::max(disk_bytes, module.disk_bytes);
  }
  double_buffered_ = streamed > 1;
  for (auto i = 0; i < std::min<std::ptrdiff_t>(streamed, 2); ++i) {
    StreamBuffer& buffer = buffers_[static_cast<std::size_t>(i)];
    if (bytes > 0)
      buffer.memory = Buffer(device_, DType::u8, {static_cast<std::int64_t>(bytes)},
                             MemoryClass::weights, "streamed weights");
    if (device_.is_cuda() && disk_bytes > 0)
      buffer.staging = Buffer::pinned(DType::u8, {static_cast<std::int64_t>(disk_bytes)},
                                      MemoryClass::offloaded, "weights from the disk");
    buffer.copied = Event(device_);
    buffer.used = Event(device_);
  }
  // Shapes, for passes that are only measured.
  for (const Module& module : modules_) bind(buffers_.front(), module);
}

void PlacedWeights::bind(const StreamBuffer& buffer, const Module& module) {
  for (const StreamedParam& one : module.streamed)
    if (one.codes == nullptr) one.param->value = view_in(buffer, one);
}

TensorView PlacedWeights::view_in(const StreamBuffer& buffer,
                                  const StreamedParam& streamed) const {
  return view_at(buffer.memory.view(), streamed.offset, compute_, streamed.param->shape);
}

void PlacedWeights::read_disk(const StreamBuffer& buffer, const Module& module) {
  for (const StreamedParam& one : module.streamed) {
    if (one.tier != Tier::disk) continue;
    if (one.codes != nullptr) {
      one.codes->boxes = read_codes(*one.param);
      continue;
    }
    const TensorView value =
        device_.is_cuda()
            ? view_at(buffer.staging.view(), one.disk_offset, compute_, one.param->shape)
            : view_in(buffer, one);
    io::read_param(source_, *one.param, value);
  }
}

void PlacedWeights::drop_codes(const Module& module) {
  for (const StreamedParam& one : module.streamed)
    if (one.codes != nullptr) one.codes->boxes.clear();
}

void PlacedWeights::copy(StreamBuffer& buffer, const Module& module, Tier tier) {
  if (!device_.is_cuda()) return;
  for (const StreamedParam& one : module.streamed) {
    if (one.tier != tier) continue;
    const TensorView from =
        tier == Tier::host
            ? one.host_copy
            : view_at(buffer.staging.view(), one.disk_offset, compute_, one.param->shape);
    copy_bytes(copies_.stream(), from, view_in(buffer, one));
  }
}

void PlacedWeights::start(StreamBuffer& buffer, int module) {
  const Module& coming = modules_[static_cast<std::size_t>(module)];
  if (buffer.module >= 0) drop_codes(modules_[static_cast<std::size_t>(buffer.module)]);
  buffer.module = module;
  under_way_ = &buffer;
  // What was copied from the staging memory has left it, and what ran on the buffer is
  // through with it, before others come.
  buffer.copied.synchronize();
  buffer.used.hold(copies_.stream());
  copy(buffer, coming, Tier::host);
  if (coming.reads)
    reading_ = std::async(std::launch::async, [this, &buffer, &coming] {
      block_signals();
      use_signal_stack();
      read_disk(buffer, coming);
    });
}

void PlacedWeights::wait_for_fetch(StreamBuffer& buffer) {
  const int module = std::exchange(buffer.module, -1);
  under_way_ = nullptr;
  if (reading_.valid()) reading_.get();
  copy(buffer, modules_[static_cast<std::size_t>(module)], Tier::disk);
  buffer.copied.record(copies_.stream());
  buffer.module = module;
}

PlacedWeights::StreamBuffer& PlacedWeights::fetch_into_buffer(int module) {
  for (StreamBuffer& buffer : buffers_)
    if (buffer.module == module) {
      if (under_way_ == &buffer) wait_for_fetch(buffer);
      return buffer;
    }
  if (under_way_ != nullptr) wait_for_fetch(*under_way_);
  StreamBuffer& buffer = in_use_ == &buffers_.front() && double_buffered_
                             ? buffers_.back()
                             : buffers_.front();
  start(buffer, module);
  wait_for_fetch(buffer);
  return buffer;
}

int PlacedWeights::next_streamed(int module) const {
  const auto count = static_cast<int>(modules_.size());
  int next = module;
  do next = (next + 1) % count;
  while (modules_[static_cast<std::size_t>(next)].streamed.empty());
  return next;
}

void PlacedWeights::fetch(int module, Direction direction) {
  const int index = module - first_module_;
  if (!idle_) fetch_streamed(index);
  if (codes_ == nullptr) return;
  if (idle_)
    codes_->show(module);
  else
    codes_->fetch(module, direction);
}

void PlacedWeights::fetch_streamed(int index) {
  const Module& here = modules_.at(static_cast<std::size_t>(index));
  if (here.streamed.empty()) return;
  StreamBuffer& buffer = fetch_into_buffer(index);
  in_use_ = &buffer;
  Stream stream(device_);
  buffer.copied.hold(stream);
  bind(buffer, here);
  const int next = next_streamed(index);
  const bool there =
      std::any_of(buffers_.begin(), buffers_.end(),
                  [&](const StreamBuffer& one) { return one.module == next; });
  if (there || under_way_ != nullptr) return;
  start(&buffer == &buffers_.front() ? buffers_.back() : buffers_.front(), next);
}

void PlacedWeights::release(int module) {
  const auto index = static_cast<std::size_t>(module - first_module_);
  if (idle_ || modules_.at(index).streamed.empty()) return;
  in_use_->used.record(Stream(device_));
}

}  // namespace trireme::infer
