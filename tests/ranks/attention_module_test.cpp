// The attention module on tensor ranks equals one rank; its gradients are differences.
// SPDX-License-Identifier: Apache-2.0
// Norms over all heads, sinks, caps, scales of their own, and each way to fuse q, k and
// v.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "base/philox.hpp"
#include "comm/mesh.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/rope.hpp"
#include "nn/attention.hpp"
#include "support/world.hpp"

namespace trireme::test {
namespace {

using Values = std::vector<double>;

constexpr std::int64_t B = 2, S = 5, T = B * S, K = 4, D = 6;

nn::AttentionConfig config_of(std::int64_t heads, std::int64_t kv_heads) {
  nn::AttentionConfig config;
  config.hidden = D;
  config.heads = heads;
  config.kv_heads = kv_heads;
  config.head_width = K;
  config.rotary = true;
  config.qkv_bias = config.output_bias = true;
  config.q = "q";
  config.k = "k";
  config.v = "v";
  config.output = "o";
  config.q_norm = "q_norm";
  config.k_norm = "k_norm";
  return config;
}

// Element `index` of a tensor, whose last extent is `columns`. Rows of a fused tensor are
// those that q, k and v would have.
double element(const nn::AttentionConfig& config, const std::string& tensor,
               std::int64_t index, std::int64_t columns) {
  std::string name = tensor;
  if (config.k.empty() && tensor.starts_with("q.")) {
    const std::int64_t row = index / columns, head = row / K;
    const std::int64_t H = config.heads, G = config.kv_heads;
    const std::int64_t part = config.fused_by_head ? head % 3
                              : head < H           ? 0
                              : head < H + G       ? 1
                                                   : 2;
    const std::int64_t own = config.fused_by_head ? head / 3
                             : part == 0          ? head
                             : part == 1          ? head - H
                                                  : head - H - G;
    name[0] = "qkv"[part];
    index = (own * K + row % K) * columns + index % columns;
  }
  const Random random(11, hash_name(name));
  const double x = random.normal(static_cast<std::uint64_t>(index));
  return tensor.find("norm") != std::string::npos ? 1 + 0.3 * x : 0.5 * x;
}

// One module with its weights, and a step of it.
class Case {
 public:
  Case(const nn::AttentionConfig& config, const parallel::TensorRegion& region)
      : config_(config),
        region_(region),
        table_(Device::host(), DType::f64, {S, K}, MemoryClass::workspace, "table"),
        module_(config, region, table_.view()) {
    Stream stream;
    kernels::rope_table(stream, 100.0, table_.view());
    module_.collect(params);
    for (Param* param : params) {
      param->value = take(param->shape);
      param->gradient = take(param->shape);
      for_elements(*param, [&](const NamedBox& box, std::int64_t at, std::int64_t index) {
        param->value.data<double>()[at] =
            element(config_, box.tensor, index, box.whole.rank() > 1 ? box.whole[1] : 1);
      });
    }
    for (std::int32_t t = 0; t < T; ++t) positions_.push_back(t % S);
    x = filled(1);
    u = filled(2);
  }

  // y of x, and <y, u>; with `backward` dx and the gradients.
  double run(bool backward) {
    Stream stream;
    saved_.reset();
    scratch_.reset();
    WeightAccess in_place;
    nn::WeightGradients gradients(in_place);
    parallel::LocalAttention core;
    nn::Pass pass{stream,   saved_,
                  scratch_, gradients,
                  core,     {B, S, TensorView(positions_.data(), DType::i32, {T})}};
    const TensorView x_TD(x.data(), DType::f64, {T, D});
    const TensorView zero = saved_.take(DType::f64, {T, D}, "zero");
    const TensorView y_TD = saved_.take(DType::f64, {T, D}, "y");
    kernels::fill(stream, zero, 0.0);
    nn::Attention::Saved kept;
    module_.forward(pass, x_TD, {zero, y_TD}, kept);
    y.assign(y_TD.data<double>(), y_TD.data<double>() + T * D);
    if (backward) {
      const TensorView dy_TD = saved_.take(DType::f64, {T, D}, "dy");
      kernels::copy(stream, TensorView(u.data(), DType::f64, {T, D}), dy_TD);
      const TensorView dx_TD = module_.backward(pass, dy_TD, kept);
      dx.assign(dx_TD.data<double>(), dx_TD.data<double>() + T * D);
    }
    double loss = 0;
    for (std::size_t i = 0; i < y.size(); ++i) loss += y[i] * u[i];
    return loss;
  }

  // This rank's share of the gradient of each whole tensor; the shares add up to it.
  std::map<std::string, Values> gradients() const {
    std::map<std::string, Values> all;
    for (const Param* param : params)
      for (const NamedBox& box : param->boxes) {
        Values& whole = all[box.tensor];
        whole.resize(static_cast<std::size_t>(box.whole.elements()));
        if (box.place == Place::invariant && !box.owned) continue;
        for_box(*param, box, [&](std::int64_t at, std::int64_t index) {
          whole[static_cast<std::size_t>(index)] += param->gradient.data<double>()[at];
        });
      }
    return all;
  }

  std::vector<Param*> params;
  Values x, u, y, dx;

 private:
  // f(element of the Param, element of the whole tensor)
  template <class F>
  static void for_box(const Param& param, const NamedBox& box, const F& f) {
    const bool matrix = box.whole.rank() == 2;
    const std::int64_t columns = matrix ? box.extent[1] : 1;
    for (std::int64_t r = 0; r < box.extent[0]; ++r)
      for (std::int64_t c = 0; c < columns; ++c)
        f((box.local_begin[0] + r) * (matrix ? param.shape[1] : 1) +
              (matrix ? box.local_begin[1] : 0) + c,
          (box.global_begin[0] + r) * (matrix ? box.whole[1] : 1) +
              (matrix ? box.global_begin[1] : 0) + c);
  }
  template <class F>
  static void for_elements(const Param& param, const F& f) {
    for (const NamedBox& box : param.boxes)
      for_box(param, box,
              [&](std::int64_t at, std::int64_t index) { f(box, at, index); });
  }
  TensorView take(const Shape& shape) {
    memory_.emplace_back(Device::host(), DType::f64, shape, MemoryClass::weights, "test");
    Stream stream;
    kernels::fill(stream, memory_.back().view(), 0.0);
    return memory_.back().view();
  }
  static Values filled(std::uint64_t seed) {
    const Random random(seed, 5);
    Values values(T * D);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = random.normal(i);
    return values;
  }

  nn::AttentionConfig config_;
  const parallel::TensorRegion& region_;
  std::vector<Buffer> memory_;
  Buffer table_;
  nn::Attention module_;
  std::vector<std::int32_t> positions_;
  Arena saved_{Device::host(), 1 << 20, MemoryClass::activations, "saved"};
  Arena scratch_{Device::host(), 1 << 20, MemoryClass::workspace, "scratch"};
};

struct Named {
  const char* name;
  nn::AttentionConfig config;
};

// Twelve heads divide among 1, 2, 3 and 4 ranks, which share key/value heads.
std::vector<Named> cases() {
  std::vector<Named> all = {{"plain", config_of(12, 2)}};
  const auto add = [&](const char* name, std::int64_t kv_heads) -> nn::AttentionConfig& {
    return all.emplace_back(Named{name, config_of(12, kv_heads)}).config;
  };
  nn::AttentionConfig* made = &add("wide norm", 12);
  made->qk_norm = nn::QkNorm::wide;
  made = &add("wide norm, shared heads", 2);
  made->qk_norm = nn::QkNorm::wide;
  made = &add("wide norm, one key head", 1);
  made->qk_norm = nn::QkNorm::wide;
  add("sinks", 4).sinks = "sinks";
  made = &add("scale and sinks", 12);
  made->scale = 0.7;
  made->sinks = "sinks";
  add("fused", 4).k = "";
  made = &add("fused by head", 12);
  made->k = "";
  made->fused_by_head = true;
  add("cap", 4).cap = 0.8;
  return all;
}

double relative(const Values& a, const Values& b) {
  EXPECT_EQ(a.size(), b.size());
  double difference = 0, size = 1e-300;
  for (std::size_t i = 0; i < b.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    size += b[i] * b[i];
  }
  return std::sqrt(difference / size);
}

// EQ64 of the design, and every share of every gradient.
TEST(AttentionModule, TensorRanksEqualOneRank) {
  comm::World& world = test::world();
  comm::Mesh mesh(world, {.tensor = world.size()});
  comm::Group& group = mesh.group(comm::Axis::tensor);
  for (const Named& each : cases()) {
    SCOPED_TRACE(each.name);
    Case one(each.config, parallel::TensorRegion::whole());
    const parallel::TensorRegion region(group, false);
    Case many(each.config, region);
    one.run(true);
    many.run(true);
    EXPECT_LE(relative(many.y, one.y), 1e-10);
    EXPECT_LE(relative(many.dx, one.dx), 1e-10);
    auto shares = many.gradients();
    const auto expected = one.gradients();
    for (const auto& [tensor, gradient] : expected) {
      Values& sum = shares[tensor];  // a rank without a box of it has none
      sum.resize(gradient.size());
      Stream stream;
      group
          .all_reduce(stream, TensorView(sum.data(), DType::f64,
                                         {static_cast<std::int64_t>(sum.size())}))
          .wait();
      EXPECT_LE(relative(sum, gradient), 1e-10) << tensor;
    }
    EXPECT_GE(expected.size(), 4U);
    // Backward writes dx and adds to the gradients.
    const Values dx = one.dx;
    one.run(true);
    EXPECT_EQ(one.dx, dx);
    for (const auto& [tensor, twice] : one.gradients()) {
      Values half = twice;
      for (double& x : half) x /= 2;
      EXPECT_LE(relative(half, expected.at(tensor)), 1e-14) << tensor;
    }
  }
}

// With a step of 1e-6 a central difference errs by about 1e-10 of the loss.
TEST(AttentionModule, GradientsAreDifferences) {
  if (test::world().rank() != 0) return;
  for (const Named& each : cases()) {
    SCOPED_TRACE(each.name);
    Case c(each.config, parallel::TensorRegion::whole());
    c.run(true);
    constexpr double h = 1e-6;
    const auto check = [&](double* values, const double* gradient, std::size_t count,
                           const std::string& name) {
      const Random random(9, hash_name(name));
      const Values before(values, values + count);
      double expected = 0, size = 0;
      for (std::size_t i = 0; i < count; ++i) {
        expected += gradient[i] * random.normal(i);
        size += gradient[i] * gradient[i];
      }
      const auto moved = [&](double step) {
        for (std::size_t i = 0; i < count; ++i)
          values[i] = before[i] + step * random.normal(i);
        return c.run(false);
      };
      const double numeric = (moved(h) - moved(-h)) / (2 * h);
      std::copy(before.begin(), before.end(), values);
      EXPECT_NEAR(numeric, expected, 1e-7 * (1 + std::sqrt(size))) << name;
      EXPECT_GT(size, 0) << name;
    };
    const Values dx = c.dx;
    check(c.x.data(), dx.data(), dx.size(), "x");
    for (Param* param : c.params)
      check(param->value.data<double>(), param->gradient.data<double>(),
            static_cast<std::size_t>(param->shape.elements()), param->name);
  }
}

// The same weights in one tensor or three are the same module, to the bit.
TEST(AttentionModule, FusedTensorsAreTheThree) {
  for (const bool by_head : {false, true}) {
    const nn::AttentionConfig apart = config_of(6, by_head ? 6 : 2);
    nn::AttentionConfig fused = apart;
    fused.k = fused.v = "";
    fused.fused_by_head = by_head;
    Case a(apart, parallel::TensorRegion::whole());
    Case b(fused, parallel::TensorRegion::whole());
    a.run(false);
    b.run(false);
    EXPECT_EQ(a.y, b.y);
    EXPECT_GT(relative(a.y, Values(a.y.size(), 0.0)), 0);
  }
}

// Every query and key, over all its heads, has the mean square 1 before the gain.
TEST(AttentionModule, WideNormsAreOverAllHeads) {
  nn::AttentionConfig config = config_of(4, 2);
  config.qk_norm = nn::QkNorm::wide;
  config.head_norms.eps = 1e-12;
  Case c(config, parallel::TensorRegion::whole());
  c.run(false);
  const Values y = c.y;
  for (Param* param : c.params)
    if (param->name == "q.weight" || param->name == "q.bias")
      for (std::int64_t i = 0; i < 4 * K * (param->shape.rank() == 2 ? D : 1); ++i)
        param->value.data<double>()[i] *= 3;  // all of q: its norm does not see it
  c.run(false);
  EXPECT_LE(relative(c.y, y), 1e-9);
  for (Param* param : c.params)
    if (param->name == "q.weight" || param->name == "q.bias")
      for (std::int64_t i = 0; i < K * (param->shape.rank() == 2 ? D : 1); ++i)
        param->value.data<double>()[i] *= 3;  // of one head: it does
  c.run(false);
  EXPECT_GT(relative(c.y, y), 1e-3);
}

}  // namespace
}  // namespace trireme::test
