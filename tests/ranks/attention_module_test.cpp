// The attention module on tensor ranks equals one rank; its gradients are differences.
// SPDX-License-Identifier: Apache-2.0
// Norms over all heads, sinks, caps, scales of their own, and each way to fuse q, k and
// v.
#include "comm/mesh.hpp"
#include "kernels/rope.hpp"
#include "nn/attention.hpp"
#include "ranks/module_case.hpp"

namespace trireme::test {
namespace {

using AttentionCase = ModuleCase<nn::Attention>;
constexpr std::int64_t S = AttentionCase::S, D = AttentionCase::D, K = 4;

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
    const std::int64_t part = config.fused_by_head() ? head % 3
                              : head < H             ? 0
                              : head < H + G         ? 1
                                                     : 2;
    const std::int64_t own = config.fused_by_head() ? head / 3
                             : part == 0            ? head
                             : part == 1            ? head - H
                                                    : head - H - G;
    name[0] = "qkv"[part];
    index = (own * K + row % K) * columns + index % columns;
  }
  const Random random(11, hash_name(name));
  const double x = random.normal(static_cast<std::uint64_t>(index));
  return tensor.find("norm") != std::string::npos ? 1 + 0.3 * x : 0.5 * x;
}

// The table of angles outlives the module.
struct Table {
  Buffer table{Device::host(), DType::f64, {S, K}, MemoryClass::workspace, "table"};
  Table() {
    Stream stream;
    kernels::rope_table(stream, 100.0, table.view());
  }
};

class Case : private Table, public AttentionCase {
 public:
  Case(const nn::AttentionConfig& config, const parallel::TensorRegion& region)
      : AttentionCase(
            [config](const std::string& tensor, std::int64_t index,
                     std::int64_t columns) {
              return element(config, tensor, index, columns);
            },
            config, region, nn::RotaryTable(table.view())) {}
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
  made->query_tensor = nn::QueryTensor::fused_by_head;
  add("cap", 4).cap = 0.8;
  made = &add("output gates", 4);
  made->query_tensor = nn::QueryTensor::with_gates;
  made->qkv_bias = false;
  made->qk_norm = nn::QkNorm::heads;
  return all;
}

TEST(AttentionModule, TensorRanksEqualOneRank) {
  comm::World& world = test::world();
  comm::Mesh mesh(world, {.tensor = world.size()});
  comm::Group& group = mesh.group(comm::Axis::tensor);
  for (const Named& each : cases()) {
    SCOPED_TRACE(each.name);
    Case one(each.config, parallel::TensorRegion::whole());
    const parallel::TensorRegion region(group, false);
    Case many(each.config, region);
    expect_ranks_equal_one(one, many, group);
  }
}

TEST(AttentionModule, GradientsAreDifferences) {
  if (test::world().rank() != 0) return;
  for (const Named& each : cases()) {
    SCOPED_TRACE(each.name);
    Case c(each.config, parallel::TensorRegion::whole());
    expect_differences(c);
  }
}

// The same weights in one tensor or three are the same module, to the bit.
TEST(AttentionModule, FusedTensorsAreTheThree) {
  for (const bool by_head : {false, true}) {
    const nn::AttentionConfig apart = config_of(6, by_head ? 6 : 2);
    nn::AttentionConfig fused = apart;
    fused.k = fused.v = "";
    if (by_head) fused.query_tensor = nn::QueryTensor::fused_by_head;
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
