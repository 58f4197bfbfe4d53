// Moe: forward and backward.
// SPDX-License-Identifier: Apache-2.0
#include "nn/moe.hpp"

#include <algorithm>
#include <cmath>

#include "base/device_memory.hpp"
#include "kernels/activation.hpp"
#include "kernels/moe.hpp"

namespace trireme::nn {
namespace {

// Appends the storage of one more expert below those in `all`, of matrices or of biases.
void append_expert(Param& all, Param one) {
  one.expert = true;
  if (all.boxes.empty()) {
    all = std::move(one);
    return;
  }
  for (NamedBox& named : one.boxes) {
    named.local_begin[0] += all.shape[0];
    all.boxes.push_back(std::move(named));
  }
  all.shape[0] += one.shape[0];
}

std::string tensor_name(const std::string& where, const std::string& name) {
  return where + "." + name;
}

}  // namespace

Moe::Moe(const MoeConfig& config, const parallel::TensorRegion& region,
         const parallel::ExpertAxes& axes, DType dtype, Device device)
    : config_(config),
      region_(region),
      axes_(axes),
      experts_(axes.dispatch.experts(config.experts)),
      load_(device, DType::f64, {config.experts}, MemoryClass::workspace, "expert load"),
      losses_(device, DType::f64, {2}, MemoryClass::workspace, "router losses") {
  require(config.top_k >= 1 && config.top_k <= config.experts,
          "a token cannot use {} of {} experts", config.top_k, config.experts);
  require(config.capacity_factor == 0 || !axes.sequence_sum.divided(),
          "the capacity of experts needs whole sequences");
  const std::int64_t D = config.hidden;
  const Initializer normal{Initializer::Kind::normal, config.deviation};
  const Initializer output{Initializer::Kind::normal, config.output_deviation};
  // Each rank of the tensor axis sees its part of the experts' outputs only.
  router_ = unsplit_inner_param(region, config.router_name + ".weight",
                                {config.experts, D}, normal);
  if (has_biases())
    router_bias_ =
        unsplit_inner_param(region, config.router_name + ".bias", {config.experts}, {});
  make_experts();
  feed_.activation = shared_.activation = config.activation;
  for (ExpertLinear* layer : {&feed_.up, &feed_.down})
    layer->bind(axes_.dispatch, experts_.count());
  feed_.set_precision(config.products);
  shared_.set_precision(config.products);
  if (has_shared()) {
    const Shape whole = {config.shared_feed_forward, D};
    const Range mine = region.part(whole[0]);
    const auto& names = config.shared_names;
    shared_.up.weight =
        up_param(config.activation, tensor_name(config.shared_name, names.gate),
                 tensor_name(config.shared_name, names.up), whole, mine, normal);
    shared_.down.weight =
        column_split_param(tensor_name(config.shared_name, names.down) + ".weight",
                           {D, whole[0]}, mine, output);
    if (has_shared_biases()) {
      shared_.up_bias =
          up_param(config.activation, tensor_name(config.shared_name, names.gate),
                   tensor_name(config.shared_name, names.up), {whole[0]}, mine, {});
      shared_.down_bias = unsplit_param(
          region, tensor_name(config.shared_name, names.down) + ".bias", {D}, {});
    }
  }
  if (has_gate())
    shared_gate_ =
        unsplit_inner_param(region, config.shared_gate + ".weight", {1, D}, normal);
  if (config.choice_bias) {
    bias_ = Buffer(device, accumulator_of(dtype), {config.experts},
                   MemoryClass::workspace, "expert bias");
    const Param like = unsplit_param(
        region, config.router_name + ".e_score_correction_bias", {config.experts}, {});
    bias_state_ = {like.boxes.front(), bias_.view()};
  }
}

void Moe::make_experts() {
  const std::int64_t D = config_.hidden, F = config_.feed_forward;
  const Range units = region_.part(F);
  const Initializer normal{Initializer::Kind::normal, config_.deviation};
  const Initializer output{Initializer::Kind::normal, config_.output_deviation};
  const auto& names = config_.expert_names;
  for (std::int64_t e = experts_.begin; e < experts_.end; ++e) {
    const std::string at = tensor_name(config_.expert_name, std::to_string(e));
    const std::string gate = tensor_name(at, names.gate), up = tensor_name(at, names.up),
                      down = tensor_name(at, names.down);
    append_expert(feed_.up.weight,
                  up_param(config_.activation, gate, up, {F, D}, units, normal));
    append_expert(feed_.down.weight,
                  column_split_param(down + ".weight", {D, F}, units, output));
    if (!has_biases()) continue;
    append_expert(feed_.up_bias, up_param(config_.activation, gate, up, {F}, units, {}));
    append_expert(feed_.down_bias,
                  row_split_param(down + ".bias", {D}, region_.part(D), {}));
  }
}

void Moe::forward(Pass& pass, const TensorView& x_TD, const Residual& residual,
                  Saved& saved) const {
  const ArenaScope scope(pass.scratch);
  Stream& stream = pass.stream;
  const TensorView partial_TD =
      pass.scratch.take(x_TD.dtype(), {pass.tokens(), config_.hidden}, "moe.partial");
  // 1. enter the region, with 3. the shared expert's inner values
  const Recompute& again = pass.recompute;
  if (has_shared()) shared_.take(pass, x_TD.dtype(), pass.tokens(), saved.shared);
  saved.x_TD = region_.enter(stream, pass.scratch, x_TD,
                             has_shared() && shared_.up.operands.rows_stand_alone(),
                             [&](const Range& rows, const TensorView& x_RD) {
                               if (!has_shared()) return;
                               auto part = saved.shared.rows(rows);
                               shared_.forward(pass, x_RD, part);
                               saved.shared.up = part.up;
                             });
  // 2. router: who goes where, with what weight
  route(pass, saved);
  // 3. the shared expert's output, 4. experts: a partial sum
  if (has_shared()) shared_output(pass, partial_TD, saved);
  if (saved.route.in_rounds())
    rounds_forward(pass, partial_TD, saved);
  else
    experts_forward(pass, partial_TD, saved);
  // 5. leave the region
  const TensorView sum_TD = region_.leave(stream, pass.scratch, partial_TD).wait();
  // 6. residual, and the shared expert's bias
  residual.join(pass, sum_TD, shared_.down_bias.value);
  saved.x_TD = again.norm ? TensorView{} : x_TD;
  feed_.forget(again, saved.hidden);
  shared_.forget(again, saved.shared);
}

TensorView Moe::backward(Pass& pass, const TensorView& dy_TD, Saved saved) {
  Stream& stream = pass.stream;
  const DType dtype = dy_TD.dtype();
  const TensorView dx_all_TD =
      pass.scratch.take(dtype, {pass.tokens(), config_.hidden}, "moe.dx");
  // 5. leave; beside its communication, 4., 3. what was not kept, once more
  auto dy_all = region_.leave_backward(stream, pass.kept(), dy_TD);
  if (has_shared_biases())
    pass.weight_gradients.post(stream, shared_.down_bias, [this, dy_TD](Stream& on) {
      kernels::add_column_sums(on, dy_TD, shared_.down_bias.gradient);
    });
  // 1. enter once more, for 2. and 3.: beside 4., unless 3. reads it before
  auto x_all = region_.enter(stream, pass.kept(), saved.x_TD);
  const bool in_rounds = saved.route.in_rounds();
  if (!in_rounds) feed_.again(pass, saved.rows_RD, saved.hidden, saved.route);
  if (in_rounds || (has_shared() && saved.shared.u_NU.empty())) saved.x_TD = x_all.wait();
  if (has_shared()) shared_.again(pass, saved.x_TD, saved.shared);
  const TensorView dy_all_TD = dy_all.wait();
  // 4. experts: combine, feed-forward, dispatch
  const TensorView dweights_TK = pass.scratch.take(
      saved.weights_TK.dtype(), saved.weights_TK.shape(), "moe.dweights");
  const RowsGradient rows =
      in_rounds ? rounds_backward(pass, dy_all_TD, saved, dweights_TK, dx_all_TD)
                : experts_backward(pass, dy_all_TD, saved, dweights_TK, dx_all_TD);
  // 3. shared expert
  saved.x_TD = x_all.wait();
  Linear::Gradient dshared;
  if (has_shared()) dshared = shared_backward(pass, dy_all_TD, saved, dx_all_TD);
  // 2. router
  const TensorView dlogits_TE = router_backward(pass, dweights_TK, saved);
  kernels::gemm(stream, dx_all_TD, dlogits_TE, kernels::Transpose::no,
                in_type(pass, router_.value, dtype), kernels::Transpose::no,
                kernels::Accumulate::yes);
  // 1. enter: its communication overlaps with the weight gradients
  auto dx = region_.enter_backward(stream, pass.scratch, dx_all_TD);
  post_rows_gradient(pass, saved, rows);
  if (has_shared())
    shared_.up.post_gradients(pass, dshared, saved.x_TD, saved.shared.up,
                              shared_.up_bias);
  pass.weight_gradients.post(
      stream, router_,
      [this, dlogits_TE, x_TD = saved.x_TD](Stream& on, kernels::Accumulate how) {
        linear_weight_gradient(on, dlogits_TE, x_TD, router_.gradient, how);
      });
  if (has_biases())
    pass.weight_gradients.post(stream, router_bias_, [this, dlogits_TE](Stream& on) {
      kernels::add_column_sums(on, dlogits_TE, router_bias_.gradient);
    });
  const double rounds = saved.route.rounds;
  rounds_.add({.sum = rounds, .count = 1, .max = rounds});
  // What weighs nothing stands in for a microbatch that there is not (engine::Batch).
  if (pass.losses.aux_scale > 0)
    kernels::count_choices(stream, saved.choice_TK, load_.view());
  return dx.wait();
}

void Moe::shared_output(Pass& pass, const TensorView& y_TD, Saved& saved) const {
  const DType dtype = saved.x_TD.dtype();
  if (!has_gate()) {
    shared_.down.forward(pass, saved.shared.a_NF, {}, y_TD, saved.shared.down);
    return;
  }
  const ArenaScope scope(pass.scratch);
  saved.shared_TD = pass.saved.take(dtype, y_TD.shape(), "moe.shared");
  saved.gate_T1 =
      pass.saved.take(accumulator_of(dtype), {pass.tokens(), 1}, "moe.shared_gate");
  shared_.down.forward(pass, saved.shared.a_NF, {}, saved.shared_TD, saved.shared.down);
  linear(pass.stream, saved.x_TD, in_type(pass, shared_gate_.value, dtype), {},
         saved.gate_T1);
  kernels::router_scores(pass.stream, kernels::RouterScore::sigmoid, saved.gate_T1,
                         saved.gate_T1);
  kernels::combine_rows(pass.stream, saved.shared_TD, {}, saved.gate_T1,
                        kernels::Accumulate::no, y_TD);
}

// The gradient of the gate is that of this rank's part of the expert's output.
Linear::Gradient Moe::shared_backward(Pass& pass, const TensorView& dy_TD,
                                      const Saved& saved, const TensorView& dx_TD) {
  Stream& stream = pass.stream;
  const DType dtype = dy_TD.dtype();
  TensorView dshared_TD = dy_TD;
  if (has_gate()) {
    dshared_TD = pass.kept().take(dtype, dy_TD.shape(), "moe.dshared");
    const TensorView dlogit_T1 =
        pass.kept().take(dtype, saved.gate_T1.shape(), "moe.dgate");
    const ArenaScope scope(pass.scratch);
    const TensorView dgate_T1 =
        pass.scratch.take(saved.gate_T1.dtype(), saved.gate_T1.shape(), "moe.dgate");
    kernels::combine_rows_backward(stream, dy_TD, saved.shared_TD, {}, saved.gate_T1,
                                   dshared_TD, dgate_T1);
    kernels::router_scores_backward(stream, kernels::RouterScore::sigmoid, saved.gate_T1,
                                    dgate_T1, dgate_T1);
    kernels::copy(stream, dgate_T1, dlogit_T1);
    kernels::gemm(stream, dx_TD, dlogit_T1, kernels::Transpose::no,
                  in_type(pass, shared_gate_.value, dtype), kernels::Transpose::no,
                  kernels::Accumulate::yes);
    pass.weight_gradients.post(
        stream, shared_gate_,
        [this, dlogit_T1, x_TD = saved.x_TD](Stream& on, kernels::Accumulate how) {
          linear_weight_gradient(on, dlogit_T1, x_TD, shared_gate_.gradient, how);
        });
  }
  const TensorView da_TF =
      shared_.arena_of_da(pass).take(dtype, saved.shared.a_NF.shape(), "moe.shared_da");
  const Linear::Gradient du = shared_.up.output_gradient(
      pass, shared_.backward(pass, dshared_TD, saved.shared, da_TF));
  shared_.up.input_gradient(pass, du, dx_TD, kernels::Accumulate::yes);
  return du;
}

void Moe::clear_step() {
  Stream stream(load_.view().device());
  kernels::fill(stream, load_.view(), 0.0);
  kernels::fill(stream, losses_.view(), 0.0);
  rounds_ = {};
}

void Moe::update_bias() {
  if (!config_.choice_bias || load_.view().device().is_meta()) return;
  Stream stream(load_.view().device());
  std::vector<double> load(static_cast<std::size_t>(config_.experts));
  copy_bytes(stream, load_.view(),
             TensorView(load.data(), DType::f64, load_.view().shape()));
  double sum = 0;
  for (const double tokens : load) sum += tokens;
  // Compared without a division: all are whole numbers.
  const double E = static_cast<double>(load.size());
  visit_floating(bias_.view().dtype(), [&]<class T>(T) {
    std::vector<T> bias(load.size());
    const TensorView on_host(bias.data(), dtype_of<T>, bias_.view().shape());
    copy_bytes(stream, bias_.view(), on_host);
    for (std::size_t e = 0; e < load.size(); ++e) {
      const double sign = load[e] * E < sum ? 1.0 : load[e] * E > sum ? -1.0 : 0.0;
      using A = Accumulator<T>;
      bias[e] =
          T(static_cast<A>(bias[e]) + static_cast<A>(sign * config_.bias_update_rate));
    }
    copy_bytes(stream, on_host, bias_.view());
  });
}

void Moe::collect(std::vector<Param*>& params) {
  params.push_back(&router_);
  if (has_biases()) params.push_back(&router_bias_);
  feed_.collect(params);
  if (has_shared()) shared_.collect(params);
  if (has_gate()) params.push_back(&shared_gate_);
}

void Moe::attach(const AdapterConfig& adapters) {
  const auto each = [&](Adapter& adapter, std::int64_t experts) {
    adapter.attach(adapters, region_, experts);
  };
  feed_.for_each_adapter(each);
  if (has_shared()) shared_.for_each_adapter(each);
}

void Moe::collect(std::vector<Fp8Operands*>& layers) {
  feed_.collect(layers);
  if (has_shared()) shared_.collect(layers);
}

void Moe::collect(std::vector<StateTensor*>& states) {
  if (config_.choice_bias) states.push_back(&bias_state_);
}

}  // namespace trireme::nn
