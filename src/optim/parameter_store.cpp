// ParameterStore: its parts, initial weights and boxes.
// SPDX-License-Identifier: Apache-2.0
#include "optim/parameter_store.hpp"

#include <algorithm>
#include <cmath>

#include "base/device_memory.hpp"
#include "base/philox.hpp"
#include "base/row_windows.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/random.hpp"

namespace trireme::optim {
namespace {

// Copies that take steps by themselves sum up nothing before they are averaged.
FlatGroups with_sums(comm::Mesh& mesh, const StoreConfig& config, comm::Group& shards,
                     comm::Group& replicas) {
  return {&shards, &replicas, config.outer.on() ? &mesh.alone() : &replicas};
}

FlatGroups dense_groups(comm::Mesh& mesh, const StoreConfig& config) {
  if (config.sharding == Sharding::none)
    return with_sums(mesh, config, mesh.alone(), mesh.replicas());
  return with_sums(mesh, config, mesh.shards(), mesh.copies());
}

FlatGroups expert_groups(comm::Mesh& mesh, const StoreConfig& config) {
  if (config.sharding == Sharding::none)
    return with_sums(mesh, config, mesh.alone(), mesh.expert_replicas());
  return with_sums(mesh, config, mesh.expert_shards(), mesh.expert_copies());
}

StoreContext make_context(const std::vector<ParamModule>& modules,
                          const StoreConfig& config, comm::Mesh& mesh, Device device) {
  require(!moves_weights(config.offload) || config.shards_weights(),
          "weights can be offloaded only when they are sharded");
  check_recipe(config);
  return {config, mesh,
          make_flat_layout(modules, {config.wrap_parameters, config.wrap_names},
                           dense_groups(mesh, config), expert_groups(mesh, config),
                           config.rule->kind == UpdateKind::matrices),
          Stream(device)};
}

// Types other than f32 and f64 round what f32 would be: some rows at a time, for all of a
// large table in f32 would be more than is ever held of it.
void draw_normal(Stream& stream, const TensorView& x, const ParamBox& box,
                 std::uint64_t seed, double deviation) {
  const auto fill = [&](const TensorView& drawn, const Shape& begin) {
    kernels::fill_normal(stream, drawn, box.named->whole, begin, seed,
                         hash_name(box.named->tensor), deviation);
  };
  if (x.dtype() == DType::f32 || x.dtype() == DType::f64)
    return fill(x, box.global_begin);
  if (x.elements() == 0) return;
  const std::int64_t rows = x.dim(0), row = x.elements() / rows;
  Shape some = x.shape();
  some[0] = rows_at_once(rows, row, window_elements);
  const Buffer memory(x.device(), DType::f32, some, MemoryClass::workspace,
                      "initial weights");
  for (const auto [first, count] : RowWindows(rows, row, window_elements)) {
    const TensorView drawn = memory.view().rows(0, count);
    Shape begin = box.global_begin;
    begin[0] += first;
    fill(drawn, begin);
    kernels::copy(stream, drawn, x.rows(first, count));
    stream.synchronize();
  }
}

// Tensors of these kinds are small (vectors, the matrices of adapters): they are made on
// the host.
void draw_uniform(Stream& stream, const TensorView& x, const ParamBox& box,
                  const Initializer& initializer, std::uint64_t seed) {
  const bool logarithms = initializer.kind == Initializer::Kind::log_uniform;
  require(!logarithms || x.shape().rank() == 1, "only vectors start with logarithms");
  const Random random(seed, hash_name(box.named->tensor));
  const double width = initializer.most - initializer.least;
  const Buffer memory(Device::host(), DType::f64, x.shape(), MemoryClass::workspace,
                      "initial weights"),
      rounded(Device::host(), x.dtype(), x.shape(), MemoryClass::workspace,
              "initial weights");
  const bool matrix = x.shape().rank() == 2;
  const std::int64_t columns = matrix ? x.dim(1) : 1,
                     all_columns = matrix ? box.named->whole[1] : 1,
                     first_column = matrix ? box.global_begin[1] : 0;
  Stream host(Device::host());
  for (std::int64_t i = 0; i < x.elements(); ++i) {
    const std::int64_t row = box.global_begin[0] + i / columns;
    const auto index =
        static_cast<std::uint64_t>(row * all_columns + first_column + i % columns);
    const double value = initializer.least + width * random.uniform(index);
    memory.view().data<double>()[i] = logarithms ? std::log(value) : value;
  }
  kernels::copy(host, memory.view(), rounded.view());
  copy_bytes(stream, rounded.view(), x);
  stream.synchronize();
}

void draw(const TensorView& x, const ParamBox& box, const Initializer& initializer,
          std::uint64_t seed) {
  Stream stream(x.device());
  switch (initializer.kind) {
    case Initializer::Kind::zeros: return kernels::fill(stream, x, 0.0);
    case Initializer::Kind::ones: return kernels::fill(stream, x, 1.0);
    case Initializer::Kind::uniform:
    case Initializer::Kind::log_uniform:
      return draw_uniform(stream, x, box, initializer, seed);
    case Initializer::Kind::normal:
      draw_normal(stream, x, box, seed, initializer.standard_deviation);
  }
}

}  // namespace

void append_boxes(std::string_view section, const FlatParameter& flat,
                  const TensorView& shard, std::int64_t& owned,
                  std::vector<StateBox>& boxes) {
  const std::int64_t begin = flat.shard().begin;
  append_boxes(
      section, flat,
      [&](const NamedBox&, Range elements) {
        return shard.rows(elements.begin - begin, elements.count());
      },
      owned, boxes);
}

void append_boxes(std::string_view section, const FlatParameter& flat,
                  const DataOf& data_of, std::int64_t& owned,
                  std::vector<StateBox>& boxes) {
  for_each_view(flat, [&](const ParameterView& view, Range range, std::int64_t) {
    for (const ParamBox& box : boxes_of(*view.param, range)) {
      const std::int64_t first = view.begin + box.begin;
      const comm::Group& replicas = *flat.replicate_group;
      const bool mine = box.named->owned && owned % replicas.size() == replicas.rank();
      if (box.named->owned) ++owned;
      boxes.push_back({box.named, section, box.global_begin,
                       data_of(*box.named, {first, first + box.extent.elements()})
                           .reshape(box.extent),
                       mine});
    }
  });
}

ParameterStore::ParameterStore(const std::vector<ParamModule>& modules,
                               const StoreConfig& config, comm::Mesh& mesh, Device device)
    : context_(make_context(modules, config, mesh, device)),
      codec_(context_, device),
      scales_(context_, codec_, device),
      memory_(context_, device),
      weights_(context_, scales_, memory_, device),
      state_(context_, codec_, scales_, memory_, weights_, device),
      outer_(context_, memory_, state_, device) {
  if (config.training) gradients_.emplace(context_, codec_, device);
  for (const FlatParameter& flat : context_.layout.flats)
    for (const ParameterView& view : flat.views) params_.push_back(view.param);
}

void ParameterStore::initialize(std::uint64_t seed) {
  weights_.wait();
  std::int64_t written = 0;
  for (const FlatParameter& flat : context_.layout.flats) {
    const TensorView shard = state_.master_shard(flat);
    for_each_view(flat, [&](const ParameterView& view, Range range, std::int64_t at) {
      for (const ParamBox& box : boxes_of(*view.param, range))
        draw(shard.rows(at + box.begin - range.begin, box.extent.elements())
                 .reshape(box.extent),
             box, view.param->initializer, seed);
    });
    memory_.flush_mapping_if_many(written += flat.shard_elements());
  }
  refresh_weights();
}

void ParameterStore::fetch(int module, Direction direction) {
  progress();  // a stage's messages move on between modules, not only at its ends
  weights_.fetch(module, direction);
}

void ParameterStore::release(int module) {
  progress();
  weights_.release(module);
}

void ParameterStore::open_gradients(int module) {
  progress();
  if (gradients_) gradients_->open(module);
}

void ParameterStore::close_gradients(int module) {
  if (gradients_) gradients_->close(module);
}

void ParameterStore::refresh_weights() {
  state_.refresh_weights();
  outer_.begin_round();
}

void ParameterStore::average_copies() {
  weights_.wait();
  outer_.run();
  refresh_weights();
}

std::vector<StateBox> ParameterStore::state_boxes() {
  weights_.wait();
  std::vector<StateBox> boxes = state_.boxes();
  outer_.append_boxes(boxes);
  return boxes;
}

std::vector<StateBox> ParameterStore::feedback_boxes() const {
  return gradients_ ? gradients_->traffic().feedback().boxes() : std::vector<StateBox>{};
}

void ParameterStore::clear_feedback() {
  if (gradients_) gradients_->traffic().feedback().clear();
}

std::int64_t ParameterStore::local_elements() const {
  std::int64_t sum = 0;
  for (const Param* param : params_) sum += param->shape.elements();
  return sum;
}

std::size_t ParameterStore::state_bytes() const {
  return weights_.bytes_at_rest() + memory_.weight_bytes() +
         (gradients_ ? gradients_->bytes_at_rest() : 0) + optimizer_bytes();
}

ParameterStore::PassingBytes ParameterStore::passing_bytes() const {
  return {weights_.bytes() - weights_.bytes_at_rest(),
          gradients_ ? gradients_->bytes() - gradients_->bytes_at_rest() : 0,
          state_.workspace_bytes(), weights_.staging_bytes()};
}

std::size_t ParameterStore::workspace_bytes() const {
  return codec_.bytes() + scales_.bytes() + state_.workspace_bytes() +
         (gradients_ ? gradients_->workspace_bytes() : 0);
}

std::size_t ParameterStore::communication_bytes() const {
  if (!gradients_) return 0;
  return gradients_->communication_bytes() + gradients_->traffic().feedback().bytes();
}

}  // namespace trireme::optim
