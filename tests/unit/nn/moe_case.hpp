// A mixture of experts with all that it needs to run alone.
// SPDX-License-Identifier: Apache-2.0
// Weights are pure functions of their names, arenas have the size that meta measures.
// Legend: T tokens, D width, E experts.
#pragma once

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/philox.hpp"
#include "kernels/elementwise.hpp"
#include "nn/moe.hpp"
#include "parallel/attention_core.hpp"

namespace trireme::test {

using Values = std::vector<double>;
using Tensors = std::map<std::string, Values>;  // whole tensors by name

inline nn::MoeConfig moe_config(std::int64_t experts, std::int64_t top_k) {
  nn::MoeConfig config;
  config.hidden = 10;
  config.feed_forward = 7;
  config.experts = experts;
  config.top_k = top_k;
  config.router_name = "moe.gate";
  config.expert_name = "moe.experts";
  config.expert_names = {"w1", "w3", "w2"};
  config.shared_name = "moe.shared";
  config.shared_names = {"gate_proj", "up_proj", "down_proj"};
  return config;
}

// Element `index` of the tensor `name` before any training.
inline double initial(const std::string& name, std::uint64_t index) {
  return 0.4 * Random(5, hash_name(name)).normal(index);
}

// The sequences [first, first + batch) of a global batch, and `part` of `parts` equal
// parts of each.
struct Piece {
  std::int64_t first = 0, batch = 1, part = 0, parts = 1;
};

// Counts the contributions that are complete.
class CountedGradients : public WeightAccess {
 public:
  void ready(Param& param) override { ++completed[&param]; }
  std::map<const Param*, int> completed;
};

class MoeCase {
 public:
  MoeCase(const nn::MoeConfig& config, const parallel::TensorRegion& region,
          const parallel::ExpertAxes& axes, DType dtype, std::int64_t sequence,
          const Piece& piece, std::int64_t global_batch,
          const nn::Recompute& recompute = {}, bool deferred = false)
      : config(config),
        moe(config, region, axes, dtype, Device::host()),
        dtype_(dtype),
        sequence_(sequence),
        piece_(piece),
        global_batch_(global_batch),
        recompute_(recompute),
        deferred_(deferred),
        region_(region) {
    moe.collect(params);
    for (Param* param : params) bind(*param);
    measure();
    const Shape shape{tokens(), config.hidden};
    for (auto* view : {&x, &residual, &dy, &y, &dx}) {
      memory_.emplace_back(Device::host(), dtype, outside(shape), MemoryClass::data,
                           "test");
      *view = memory_.back().view();
    }
    fill_rows(x, "x", 2.5);
    fill_rows(residual, "residual", 2.5);
    fill_rows(dy, "dy", 2.5);
  }

  std::int64_t tokens() const { return piece_.batch * sequence_ / piece_.parts; }
  void forward() {
    saved_->reset();
    Stream stream;
    nn::WeightGradients none(in_place_);
    nn::Pass pass = make_pass(stream, *saved_, *scratch_, none);
    moe.forward(pass, x, {residual, y}, views);
    EXPECT_EQ(scratch_->mark(), 0u);
  }
  void backward() {
    Stream stream;
    in_place_.completed.clear();
    nn::DeferredGradients later;
    nn::WeightGradients gradients(in_place_, deferred_ ? &later : nullptr);
    nn::Pass pass = make_pass(stream, *saved_, *scratch_, gradients);
    {
      const ArenaScope scope(*scratch_);
      kernels::copy(stream, moe.backward(pass, dy, views), dx);
    }
    spoil_scratch(stream);
    later.run(stream, in_place_);
    for (const Param* param : params)
      EXPECT_EQ(in_place_.completed[param], 1) << param->name;
  }

  // <dy, y> of this rank's rows plus the losses, as a backward() would count them.
  double objective() {
    forward();
    double sum = 0;
    const auto a = values(y), b = values(dy);
    for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
    const double sequences = static_cast<double>(global_batch_);
    return sum + config.aux_loss * balance() / sequences +
           config.z_loss * z() / (sequences * static_cast<double>(sequence_));
  }
  // The routers' losses of the last forward(), without factors; 0 if there are none.
  double balance() const {
    Stream stream;
    if (config.aux_loss == 0) return 0;
    return kernels::balance_loss(stream, views.sums_B2E, config.top_k, sequence_);
  }
  double z() const {
    Stream stream;
    const Buffer lse_T(Device::host(), views.logits_TE.dtype(), {tokens()},
                       MemoryClass::data, "test");
    return kernels::router_z_loss(stream, views.logits_TE, lse_T.view());
  }

  static Values values(const TensorView& view) {
    Values out;
    visit_floating(view.dtype(), [&]<class T>(T) {
      for (const T v : view.span<T>())
        out.push_back(static_cast<double>(static_cast<Accumulator<T>>(v)));
    });
    return out;
  }
  // This rank's boxes of each gradient, zeros elsewhere: their sum over ranks is whole.
  Tensors gradients() const { return boxes(false); }
  Tensors weights() const { return boxes(true); }

  // The row of the global batch in which row `t` of this rank lies.
  std::int64_t global_row(std::int64_t t) const {
    const std::int64_t length = sequence_ / piece_.parts;
    t += region_.outside_rows(tokens()).begin;
    return (piece_.first + t / length) * sequence_ + piece_.part * length + t % length;
  }

  nn::MoeConfig config;
  nn::Moe moe;
  std::vector<Param*> params;
  nn::Moe::Saved views;
  TensorView x, residual, dy, y, dx;
  std::size_t saved_bytes = 0, scratch_bytes = 0;  // as measured on the meta device
  // Whether all of that was used.
  bool is_full() const {
    return saved_->peak_bytes() == saved_bytes && scratch_->peak_bytes() == scratch_bytes;
  }

 private:
  Shape outside(Shape shape) const {
    shape[0] = region_.outside_rows(shape[0]).count();
    return shape;
  }
  void fill_rows(const TensorView& view, const std::string& name, double scale) const {
    visit_floating(view.dtype(), [&]<class T>(T) {
      T* const data = view.data<T>();
      const std::int64_t D = view.dim(1);
      for (std::int64_t i = 0; i < view.elements(); ++i) {
        const auto at = static_cast<std::uint64_t>(global_row(i / D) * D + i % D);
        data[i] = T(static_cast<Accumulator<T>>(scale * initial(name, at)));
      }
    });
  }
  template <class F>  // f(tensor name, index in the whole, index in the Param)
  static void for_elements(const Param& param, const F& f) {
    // A bias is a matrix of one column.
    const bool matrix = param.shape.rank() == 2;
    const auto second = [&](const Shape& shape, std::int64_t of_bias) {
      return matrix ? shape[1] : of_bias;
    };
    for (const NamedBox& named : param.boxes)
      for (std::int64_t i = 0; i < named.extent[0]; ++i)
        for (std::int64_t j = 0; j < second(named.extent, 1); ++j)
          f(named,
            (named.global_begin[0] + i) * second(named.whole, 1) +
                second(named.global_begin, 0) + j,
            (named.local_begin[0] + i) * second(param.shape, 1) +
                second(named.local_begin, 0) + j);
  }
  void bind(Param& param) {
    memory_.emplace_back(Device::host(), dtype_, param.shape, MemoryClass::weights, "w");
    param.value = memory_.back().view();
    memory_.emplace_back(Device::host(), accumulator_of(dtype_), param.shape,
                         MemoryClass::gradients, "dw");
    param.gradient = memory_.back().view();
    visit_floating(dtype_, [&]<class T>(T) {
      for_elements(param, [&](const NamedBox& named, std::int64_t from, std::int64_t to) {
        param.value.data<T>()[to] = T(static_cast<Accumulator<T>>(
            initial(named.tensor, static_cast<std::uint64_t>(from))));
      });
    });
  }
  Tensors boxes(bool weights) const {
    Tensors tensors;
    for (const Param* param : params) {
      const Values local = values(weights ? param->value : param->gradient);
      for_elements(
          *param, [&](const NamedBox& named, std::int64_t to, std::int64_t from) {
            auto& whole = tensors[named.tensor];
            whole.resize(static_cast<std::size_t>(named.whole.elements()));
            whole[static_cast<std::size_t>(to)] = local[static_cast<std::size_t>(from)];
          });
    }
    return tensors;
  }
  // Nothing in it is read once backward has returned.
  void spoil_scratch(Stream& stream) {
    const ArenaScope scope(*scratch_);
    const auto doubles = static_cast<std::int64_t>(scratch_->capacity() / sizeof(double));
    kernels::fill(stream, scratch_->take(DType::f64, {doubles}, "nothing"),
                  std::numeric_limits<double>::quiet_NaN());
  }
  nn::Pass make_pass(Stream& stream, Arena& saved, Arena& scratch,
                     nn::WeightGradients& gradients) {
    nn::Pass pass{stream,    saved,      scratch,
                  gradients, attention_, {piece_.batch, sequence_ / piece_.parts}};
    pass.recompute = recompute_;
    const double sequences = static_cast<double>(global_batch_);
    pass.losses.aux_scale = 1 / sequences;
    pass.losses.token_scale = 1 / (sequences * static_cast<double>(sequence_));
    return pass;
  }
  void measure() {
    const Device meta = Device::meta();
    Stream stream(meta);
    Arena saved(meta, 0, MemoryClass::activations, "saved");
    Arena scratch(meta, 0, MemoryClass::workspace, "scratch");
    nn::DeferredGradients later;
    nn::WeightGradients gradients(in_place_, deferred_ ? &later : nullptr);
    nn::Pass pass = make_pass(stream, saved, scratch, gradients);
    const TensorView rows(nullptr, dtype_, outside({tokens(), config.hidden}), meta);
    nn::Moe::Saved unused;
    moe.forward(pass, rows, {rows, rows}, unused);
    moe.backward(pass, rows, unused);
    saved_bytes = saved.peak_bytes();
    scratch_bytes = scratch.peak_bytes();
    saved_ = std::make_unique<Arena>(Device::host(), saved_bytes,
                                     MemoryClass::activations, "saved");
    scratch_ = std::make_unique<Arena>(Device::host(), scratch_bytes,
                                       MemoryClass::workspace, "scratch");
  }

  DType dtype_;
  std::int64_t sequence_;
  Piece piece_;
  std::int64_t global_batch_;
  nn::Recompute recompute_;
  bool deferred_;  // weights' gradients are made when backward has returned
  const parallel::TensorRegion& region_;
  std::vector<Buffer> memory_;
  std::unique_ptr<Arena> saved_, scratch_;
  CountedGradients in_place_;
  parallel::LocalAttention attention_;
};

}  // namespace trireme::test
