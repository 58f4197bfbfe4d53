// ParameterStore: memory, initial weights and boxes.
// SPDX-License-Identifier: Apache-2.0
#include "optim/parameter_store.hpp"

#include <algorithm>

#include "base/philox.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/random.hpp"

namespace trireme::optim {
namespace {

// Elements that pass through staging memory at a time, on their way to and from the host.
constexpr std::int64_t staged_elements = 1 << 20;

Holders dense_holders(comm::Mesh& mesh, Sharding sharding) {
  if (sharding == Sharding::none) return {&mesh.alone(), &mesh.replicas()};
  return {&mesh.shards(), &mesh.copies()};
}

Holders expert_holders(comm::Mesh& mesh, Sharding sharding) {
  if (sharding == Sharding::none) return {&mesh.alone(), &mesh.expert_replicas()};
  return {&mesh.expert_shards(), &mesh.expert_copies()};
}

// Types other than f32 and f64 round what f32 would be.
void draw_normal(Stream& stream, const TensorView& x, const FlatBox& box,
                 std::uint64_t seed, double deviation) {
  const bool wide = x.dtype() == DType::f32 || x.dtype() == DType::f64;
  const Buffer room = wide ? Buffer()
                           : Buffer(x.device(), DType::f32, x.shape(),
                                    MemoryClass::workspace, "initial weights");
  const TensorView drawn = wide ? x : room.view();
  kernels::fill_normal(stream, drawn, box.slab->whole, box.global_begin, seed,
                       hash_name(box.slab->tensor), deviation);
  if (wide) return;
  kernels::copy(stream, drawn, x);
  stream.synchronize();
}

}  // namespace

ParameterStore::ParameterStore(const std::vector<ParamModule>& modules,
                               const StoreConfig& config, comm::Mesh& mesh, Device device)
    : config_(config),
      mesh_(mesh),
      stream_(device),
      layout_(make_units(modules, config.wrap_parameters,
                         dense_holders(mesh, config.sharding),
                         expert_holders(mesh, config.sharding),
                         config.rule->kind == UpdateKind::matrices)) {
  require(config.offload != Offload::weights || shares_weights(),
          "weights can be offloaded only when they are sharded");
  check_recipe();
  for (std::size_t u = 0; u < layout_.units.size(); ++u) {
    for (const Piece& piece : layout_.units[u].pieces) {
      entries_[piece.param] = {u, &piece, 0, 0};
      params_.push_back(piece.param);
    }
  }
  unit_handles_.resize(layout_.units.size());
  unit_pending_.resize(layout_.units.size());
  find_segments();
  allocate(device);
  allocate_slots(device);
  allocate_narrow(device);
  bind_whole();
  if (!config_.training) return;
  allocate_feedback(device);
  if (config_.sharding == Sharding::none) cut_buckets();
  find_partial_tensors();
  if (config_.rule->kind != UpdateKind::matrices) return;
  require(config_.offload == Offload::none && !narrow_state(), Status::bad_content,
          "{} needs its state on the device, in {}", config_.rule->name,
          name_of(config_.wide()));
  matrices_ =
      MatrixUpdate(layout_.units, mesh, device, config_.wide(), config_.module_type());
}

void ParameterStore::allocate(Device device) {
  // What is offloaded from a GPU lies where copies reach it directly.
  const auto flat = [&](DType dtype, std::int64_t elements, MemoryClass use,
                        const char* label) {
    return use == MemoryClass::offloaded && device.is_cuda()
               ? Buffer::pinned(dtype, {elements}, use, label)
               : Buffer(device, dtype, {elements}, use, label);
  };
  const bool away = config_.offload == Offload::weights;
  const DType weight = config_.type(TensorClass::weight);
  weights_ =
      flat(weight, shares_weights() ? layout_.share_elements : layout_.whole_elements,
           away ? MemoryClass::offloaded : MemoryClass::weights, "weights");
  if (!config_.training) return;
  const std::int64_t trained = layout_.trained_share_elements;
  const bool offloads = config_.offload != Offload::none;
  const MemoryClass state = offloads ? MemoryClass::offloaded : MemoryClass::optimizer;
  const DType sum = config_.type(TensorClass::gradient_sum);
  gradients_ = flat(sum, shares_gradients() ? trained : layout_.trained_whole_elements,
                    MemoryClass::gradients, "gradients");
  if (has_microbatch()) {
    microbatch_ =
        flat(config_.type(TensorClass::gradient), layout_.trained_whole_elements,
             MemoryClass::gradients, "gradients of a microbatch");
  }
  // The host updates a copy of its own even where the types are the same.
  const DType master = config_.type(TensorClass::master);
  if (weight != master || config_.offload == Offload::optimizer)
    master_ = flat(master, layout_.share_elements, state, "master weights");
  if (config_.has_moment1())
    moment1_ = flat(config_.type(TensorClass::moment1), trained, state, "first moments");
  if (config_.has_moment2())
    moment2_ = flat(config_.type(TensorClass::moment2), layout_.element_share_elements,
                    state, "second moments");
  if (!offloads) return;
  const std::int64_t room = std::min(staged_elements, std::max<std::int64_t>(trained, 1));
  if (!narrow_state())
    staged_gradient_ = flat(sum, room, MemoryClass::offloaded, "staged gradients");
  staged_weight_ = flat(weight, room, MemoryClass::offloaded, "staged weights");
}

void ParameterStore::allocate_slots(Device device) {
  std::int64_t most = 0, most_trained = 0;
  for (const Bundle& bundle : layout_.bundles) {
    most = std::max(most, bundle.elements);
    most_trained = std::max(most_trained, bundle.trained_elements);
  }
  if (fetches_weights()) {
    const int needed = layout_.most_bundles;
    const int slots =
        config_.gathered_units > 0 ? config_.gathered_units : needed + config_.prefetch;
    require(
        slots >= needed, Status::bad_content,
        "parallel.gathered_units = {} is too few: a module with a tied table needs {}",
        slots, needed);
    weight_slots_.resize(static_cast<std::size_t>(slots));
    gathered_ = Buffer(device, config_.bound_type(), {slots * most}, MemoryClass::weights,
                       "gathered weights");
    if (shares_weights() && converts_weights())
      wire_ = Buffer(device, config_.type(TensorClass::weight), {slots * most},
                     MemoryClass::weights, "weights as they are gathered");
  }
  if (config_.training && opens_gradients()) {
    // One more than a module opens: it is reduced while the next is filled.
    const int slots = layout_.most_bundles + 1;
    gradient_slots_.resize(static_cast<std::size_t>(slots));
    opened_ = Buffer(device, config_.wide(), {slots * most_trained},
                     MemoryClass::gradients, "whole gradients");
  }
}

void ParameterStore::bind_whole() {
  for (const Unit& unit : layout_.units) {
    for (const Piece& piece : unit.pieces) {
      const auto at = [&](const Buffer& wholes) {
        return wholes.view()
            .rows(unit.whole_at + piece.begin, piece.elements)
            .reshape(piece.param->shape);
      };
      if (!fetches_weights()) piece.param->value = at(weights_);
      if (config_.training && !opens_gradients() && !unit.frozen)
        piece.param->gradient = at(gradients_);
    }
  }
}

TensorView ParameterStore::share_in(const Buffer& shares, const Unit& unit) {
  return shares.view().rows(unit.share_at, unit.share_elements());
}

TensorView ParameterStore::share_of_whole(const Buffer& wholes, const Unit& unit) {
  return wholes.view().rows(unit.whole_at + unit.share().begin, unit.share_elements());
}

TensorView ParameterStore::weight_share(const Unit& unit) const {
  return shares_weights() ? share_in(weights_, unit) : share_of_whole(weights_, unit);
}

TensorView ParameterStore::gradient_share(const Unit& unit) const {
  return shares_gradients() ? share_in(gradients_, unit)
                            : share_of_whole(gradients_, unit);
}

TensorView ParameterStore::master_share(const Unit& unit) const {
  return master_.view().empty() ? weight_share(unit) : share_in(master_, unit);
}

ParameterStore::Entry& ParameterStore::entry_of(const Param& param) {
  const auto found = entries_.find(&param);
  require(found != entries_.end(), "'{}' is not in this store", param.name);
  return found->second;
}

void ParameterStore::initialize(std::uint64_t seed) {
  for (const Unit& unit : layout_.units) {
    const TensorView share = master_share(unit);
    for_each_piece(unit, [&](const Piece& piece, Range range, std::int64_t at) {
      for (const FlatBox& box : boxes_of(*piece.param, range)) {
        const TensorView x = share.rows(at + box.at - range.begin, box.extent.elements())
                                 .reshape(box.extent);
        const Initializer& start = piece.param->initializer;
        Stream stream(x.device());
        switch (start.kind) {
          case Initializer::Kind::zeros: kernels::fill(stream, x, 0.0); break;
          case Initializer::Kind::ones: kernels::fill(stream, x, 1.0); break;
          case Initializer::Kind::normal:
            draw_normal(stream, x, box, seed, start.standard_deviation);
        }
      }
    });
  }
  refresh_weights();
}

void ParameterStore::refresh_weights() {
  forget_gathered();
  moment1_scales_.receive(stream_);
  moment2_scales_.receive(stream_);
  if (!weight_scales_.empty()) encode_weights();
  std::vector<comm::Handle> handles;
  for (const Unit& unit : layout_.units) {
    const TensorView share = weight_share(unit);
    if (owns_master() && weight_scales_.empty()) round_weights(master_share(unit), share);
    if (shares_weights()) continue;
    handles.push_back(unit.shards->all_gather(
        stream_, share, weights_.view().rows(unit.whole_at, unit.elements)));
  }
  for (auto& handle : handles) handle.wait();
}

// weights in use = master weights; through the host's staging memory where the two lie
// apart.
void ParameterStore::round_weights(const TensorView& master, const TensorView& weights) {
  if (config_.offload == Offload::none || config_.offload == Offload::weights) {
    Stream stream(master.device());
    kernels::copy(stream, master, weights);
    return;
  }
  Stream host(master.device());
  const std::int64_t most = staged_weight_.view().elements();
  for (std::int64_t done = 0; done < master.elements(); done += most) {
    const std::int64_t count = std::min(most, master.elements() - done);
    const TensorView staged = staged_weight_.view().rows(0, count);
    kernels::copy(host, master.rows(done, count), staged);
    move(staged, weights.rows(done, count), traffic_.to_device);
  }
}

void ParameterStore::append_boxes(std::string_view section, const Unit& unit,
                                  const TensorView& share, std::int64_t& owned,
                                  std::vector<StoredBox>& boxes) const {
  // Writing is dealt out over the ranks that hold the same share, box by box.
  for_each_piece(unit, [&](const Piece& piece, Range range, std::int64_t at) {
    for (const FlatBox& box : boxes_of(*piece.param, range)) {
      const bool mine =
          box.slab->owned && owned % unit.copies->size() == unit.copies->rank();
      if (box.slab->owned) ++owned;
      boxes.push_back({box.slab, section, box.global_begin,
                       share.rows(at + box.at - range.begin, box.extent.elements())
                           .reshape(box.extent),
                       mine});
    }
  });
}

std::vector<StoredBox> ParameterStore::state_boxes() const {
  std::vector<StoredBox> boxes;
  const auto all = [&](std::string_view section, bool frozen_too, const auto& share_of) {
    std::int64_t owned = 0;
    for (const Unit& unit : layout_.units) {
      if (unit.matrices && section == state_sections[1]) continue;
      if (frozen_too || !unit.frozen)
        append_boxes(section, unit, share_of(unit), owned, boxes);
    }
  };
  all("model", true, [&](const Unit& unit) { return master_share(unit); });
  if (!moment1_.view().empty())
    all("optimizer/moment1", false,
        [&](const Unit& unit) { return share_in(moment1_, unit); });
  if (!moment2_.view().empty())
    all("optimizer/moment2", false,
        [&](const Unit& unit) { return share_in(moment2_, unit); });
  append_scale_boxes("optimizer/moment1_scale", moment1_scales_, boxes);
  append_scale_boxes("optimizer/moment2_scale", moment2_scales_, boxes);
  return boxes;
}

std::int64_t ParameterStore::local_elements() const {
  std::int64_t sum = 0;
  for (const Param* param : params_) sum += param->shape.elements();
  return sum;
}

}  // namespace trireme::optim
