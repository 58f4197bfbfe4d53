// ParameterStore: weights that are gathered for a module and given up after it.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/elementwise.hpp"
#include "optim/parameter_store.hpp"

namespace trireme::optim {

TensorView ParameterStore::slot_memory(const std::vector<Slot>& slots, const Slot& slot,
                                       const Buffer& memory) const {
  const auto room = memory.view().elements() /
                    static_cast<std::int64_t>(std::max<std::size_t>(slots.size(), 1));
  return memory.view().rows((&slot - slots.data()) * room, room);
}

ParameterStore::Slot* ParameterStore::slot_of(int bundle) {
  for (Slot& slot : weight_slots_) {
    if (slot.bundle == bundle) return &slot;
  }
  return nullptr;
}

// The slot that nobody uses and that was used longest ago, before the given time.
ParameterStore::Slot* ParameterStore::idle_slot(std::int64_t before) {
  Slot* oldest = nullptr;
  for (Slot& slot : weight_slots_) {
    if (slot.users > 0 || slot.last_use >= before) continue;
    if (oldest == nullptr || slot.last_use < oldest->last_use) oldest = &slot;
  }
  return oldest;
}

void ParameterStore::bind_values(int bundle, const TensorView& memory) {
  std::int64_t begin = 0;
  for (const std::size_t u : layout_.bundles[static_cast<std::size_t>(bundle)].units) {
    const Unit& unit = layout_.units[u];
    for (const Piece& piece : unit.pieces) {
      piece.param->value = memory.shape().rank() == 0
                               ? TensorView()
                               : memory.rows(begin + piece.begin, piece.elements)
                                     .reshape(piece.param->shape);
    }
    begin += unit.elements;
  }
}

void ParameterStore::start_gather(Slot& slot, int bundle) {
  if (slot.bundle >= 0) {
    settle_gather(slot);
    bind_values(slot.bundle, {});
  }
  slot.bundle = bundle;
  slot.last_use = clock_;
  slot.settled = false;
  slot.handles.clear();
  if (!shares_weights()) return;
  const TensorView memory =
      slot_memory(weight_slots_, slot, converts_weights() ? wire_ : gathered_);
  std::int64_t begin = 0;
  for (const std::size_t u : layout_.bundles[static_cast<std::size_t>(bundle)].units) {
    const Unit& unit = layout_.units[u];
    const TensorView whole = memory.rows(begin, unit.elements);
    TensorView share = weight_share(unit);
    if (config_.offload == Offload::weights) {
      const TensorView mine = whole.rows(unit.share().begin, unit.share_elements());
      move(share, mine, traffic_.to_device);
      share = mine;
    }
    slot.handles.push_back(unit.shards->all_gather(stream_, share, whole));
    begin += unit.elements;
  }
  ++gathers_;
  const auto held = std::count_if(weight_slots_.begin(), weight_slots_.end(),
                                  [](const Slot& s) { return s.bundle >= 0; });
  peak_gathered_ = std::max(peak_gathered_, static_cast<int>(held));
}

void ParameterStore::settle_gather(Slot& slot) {
  if (slot.settled) return;
  for (auto& handle : slot.handles) handle.wait();
  slot.settled = true;
  if (!converts_weights()) return;
  std::int64_t begin = 0;
  for (const std::size_t u :
       layout_.bundles[static_cast<std::size_t>(slot.bundle)].units) {
    const Unit& unit = layout_.units[u];
    const TensorView kept =
        shares_weights()
            ? slot_memory(weight_slots_, slot, wire_).rows(begin, unit.elements)
            : weights_.view().rows(unit.whole_at, unit.elements);
    convert_weights(
        unit, kept,
        slot_memory(weight_slots_, slot, gathered_).rows(begin, unit.elements));
    begin += unit.elements;
  }
}

void ParameterStore::fetch(int module, Direction direction) {
  progress();  // a stage's messages move on between modules, not only at its ends
  if (!fetches_weights()) return;
  const std::int64_t start = ++clock_;
  const auto bundles_of = [&](int m) -> const std::vector<int>& {
    return layout_.bundles_of_module[static_cast<std::size_t>(m)];
  };
  // 1. This module: first those that are here, so that they are not given up.
  for (const int bundle : bundles_of(module)) {
    if (Slot* slot = slot_of(bundle)) ++slot->users;
  }
  for (const int bundle : bundles_of(module)) {
    if (slot_of(bundle) != nullptr) continue;
    Slot* slot = idle_slot(start);
    require(slot != nullptr, "no room to gather the weights of module {}", module);
    start_gather(*slot, bundle);
    ++slot->users;
  }
  // 2. The next ones, into what room is left.
  const int step = direction == Direction::forward ? 1 : -1;
  const int modules = static_cast<int>(layout_.bundles_of_module.size());
  for (int ahead = 1; ahead <= config_.prefetch; ++ahead) {
    const int next = module + step * ahead;
    if (next < 0 || next >= modules) break;
    for (const int bundle : bundles_of(next)) {
      if (Slot* here = slot_of(bundle)) {
        here->last_use = clock_;
        continue;
      }
      if (Slot* slot = idle_slot(start)) start_gather(*slot, bundle);
    }
  }
  // 3. Now this module's must have come.
  for (const int bundle : bundles_of(module)) {
    Slot& slot = *slot_of(bundle);
    slot.last_use = clock_;
    settle_gather(slot);
    bind_values(bundle, slot_memory(weight_slots_, slot, gathered_));
  }
}

void ParameterStore::release(int module) {
  progress();
  if (!fetches_weights()) return;
  for (const int bundle : layout_.bundles_of_module[static_cast<std::size_t>(module)]) {
    Slot* slot = slot_of(bundle);
    require(slot != nullptr && slot->users > 0, "module {} was not fetched", module);
    --slot->users;
  }
}

// After an update: what is gathered is out of date.
void ParameterStore::forget_gathered() {
  for (Slot& slot : weight_slots_) {
    require(slot.users == 0, "weights change while a module uses them");
    settle_gather(slot);
    if (slot.bundle >= 0) bind_values(slot.bundle, {});
    slot.bundle = -1;
    slot.last_use = 0;
  }
}

}  // namespace trireme::optim
