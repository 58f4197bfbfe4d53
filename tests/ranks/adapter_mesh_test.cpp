// Adapters train on every mesh of a table (adapter_meshes.txt) as on one rank of a host.
// SPDX-License-Identifier: Apache-2.0
// The second matrices start with numbers, so that the first ones have gradients at once.
#include <gtest/gtest.h>

#include "base/device_memory.hpp"
#include "kernels/elementwise.hpp"
#include "nn/adapter_config.hpp"
#include "support/coded_base.hpp"
#include "support/device.hpp"
#include "support/mesh_run.hpp"
#include "support/mesh_table.hpp"
#include "support/world.hpp"
#include "train/replica_check.hpp"

namespace trireme::test {
namespace {

constexpr int steps = 3;

// A number for each element of the whole matrix.
double value_at(std::int64_t row, std::int64_t column) {
  return 0.02 * static_cast<double>((row * 13 + column * 7) % 11 - 5);
}

// Where the frozen linear layers of blocks come from in lines with adapter.quantize: as
// codes, or as the numbers that these stand for.
void fill_base(engine::Engine& engine, const io::TensorSource& base) {
  for (const optim::StateBox& box : engine.store().state_boxes()) {
    const NamedBox& named = *box.named;
    if (box.section == "model" && model::becomes_codes(named.tensor, named.whole))
      base.read("model/" + named.tensor, named.whole, box.global_begin, box.data);
  }
}

// DoRA's numbers differ from the lengths of rows, some widely.
void fill_magnitudes(const optim::StateBox& box) {
  Stream stream(box.data.device());
  for (std::int64_t i = 0; i < box.data.dim(0); ++i)
    kernels::fill(stream, box.data.rows(i, 1),
                  1 + 0.3 * static_cast<double>((box.global_begin[0] + i) * 5 % 7 - 2));
}

void fill_up_matrices(engine::Engine& engine, const io::TensorSource* base) {
  engine.store().initialize(42);
  if (base != nullptr) fill_base(engine, *base);
  for (const optim::StateBox& box : engine.store().state_boxes()) {
    if (box.section != "model") continue;
    if (box.named->tensor.ends_with(nn::magnitude_suffix)) fill_magnitudes(box);
    if (!box.named->tensor.ends_with(nn::up_suffix)) continue;
    Stream stream(box.data.device());
    for (std::int64_t i = 0; i < box.data.dim(0); ++i)
      for (std::int64_t j = 0; j < box.data.dim(1); ++j)
        kernels::fill(stream, box.data.rows(i, 1).columns(j, 1),
                      value_at(box.global_begin[0] + i, box.global_begin[1] + j));
  }
  engine.store().refresh_weights();
}

Outcome run(const config::RunConfig& config, comm::Mesh& mesh,
            const io::TensorSource* base = nullptr,
            const std::function<void(engine::Engine&)>& inspect = {}) {
  const Resume with_numbers{
      [base](engine::Engine& engine) { fill_up_matrices(engine, base); }, 1};
  return train_steps(config, mesh, steps, true, inspect, with_numbers, true);
}

void change_first_byte(const TensorView& data) {
  const TensorView first(data.raw(), DType::u8, {1}, data.device());
  std::uint8_t byte = 0;
  const TensorView here(&byte, DType::u8, {1});
  Stream stream(data.device());
  copy_bytes(stream, first, here);
  byte = static_cast<std::uint8_t>(byte ^ 1u);
  copy_bytes(stream, here, first);
}

// Codes that several ranks hold are the same ones; a bit of the last rank's that is
// another is found where the first rank holds them, too.
void expect_alike(engine::Engine& engine, comm::Mesh& mesh, bool replicated) {
  const auto boxes =
      engine.base() ? engine.base()->boxes() : std::vector<io::TensorBox>();
  const auto check = [&] {
    try {
      train::check_replicas(world(), mesh, boxes, 1);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(check(), "");
  ASSERT_FALSE(boxes.empty());
  if (world().rank() == world().size() - 1) change_first_byte(boxes.front().data);
  const std::string found = check();
  EXPECT_EQ(found.find("base/") != std::string::npos, replicated) << found;
}

config::RunConfig without_mesh(config::RunConfig config) {
  const std::int64_t bucket_bytes = config.parallel.bucket_bytes;
  config.parallel = {};
  config.parallel.bucket_bytes = bucket_bytes;
  config.recompute = {};
  config.batch.micro = 1;
  return config;
}

// Of a matrix, by its name in a state.
bool is_coded(const std::string& name) {
  return !nn::is_adapter_tensor(name) && name.find("norm") == std::string::npos &&
         model::becomes_codes(name, {1, 1});
}

// Only adapters have moments, and the frozen weights are those of the start.
void expect_frozen(const Outcome& outcome) {
  for (const auto& [name, values] : outcome.gradients)
    EXPECT_TRUE(nn::is_adapter_tensor(name) || name.find("norm.") != std::string::npos)
        << name;
}

// One rank that keeps codes has the bits of one that keeps what they stand for.
void expect_same_as_numbers(const config::RunConfig& config, comm::Mesh& alone,
                            const Outcome& numbers) {
  const Outcome codes = run(config, alone);
  ASSERT_EQ(codes.gradients.size(), numbers.gradients.size());
  for (const auto& [name, values] : numbers.gradients)
    EXPECT_EQ(codes.gradients.at(name), values) << name;
  EXPECT_EQ(codes.losses, numbers.losses);
  EXPECT_EQ(codes.norms, numbers.norms);
  std::size_t coded = 0;
  for (const auto& [name, values] : numbers.state) {
    const auto found = codes.state.find(name);
    if (found == codes.state.end()) {
      ++coded;
      continue;
    }
    EXPECT_EQ(found->second, values) << name;
  }
  EXPECT_GT(coded, 0u);
}

TEST(AdapterMesh, EachMeshEqualsOneRank) {
  int lines = 0, run_lines = 0, replicas_checked = 0;
  for (const MeshLine& line : read_mesh_table(MESH_TABLE)) {
    if (line.ranks != world().size()) continue;
    if (is_watched() && ++lines % 2 == 1) continue;
    SCOPED_TRACE(line.text);
    auto config = mesh_config(line, "fp64");
    const bool coded = config.adapter.quantize != model::BaseCodes::none;
    // On a GPU those beside codes; lengths of rows are made on CPUs.
    if (test_device().is_cuda() && (!coded || config.adapter.matrices.dora)) continue;
    const auto base = coded ? coded_base(config.adapter.quantize) : nullptr;
    config.adapter.codes = base;
    comm::Mesh mesh = test_mesh(config);
    const bool replicated = mesh.replicas().size() == world().size() &&
                            config.parallel.sharding != optim::Sharding::weights;
    const Outcome outcome = run(config, mesh, nullptr, [&](engine::Engine& engine) {
      if (coded) expect_alike(engine, mesh, replicated);
    });
    replicas_checked += coded && replicated ? 1 : 0;
    ++run_lines;
    if (world().rank() != 0) continue;
    comm::Mesh alone = comm::Mesh::meta({}, 0);
    config::RunConfig plain = without_mesh(config);
    plain.adapter.quantize = model::BaseCodes::none;
    const Outcome one = run(plain, alone, base.get());
    if (coded && !test_device().is_cuda())
      expect_same_as_numbers(without_mesh(config), alone, one);
    expect_equal(outcome, one, eq64);
    expect_frozen(outcome);
    for (const auto& [name, values] : one.gradients) {
      double sum = 0;
      for (const double value : values) sum += value * value;
      EXPECT_GT(sum, 0) << name << ": has no gradient";
    }
    for (const auto& [name, values] : one.state) {
      if (coded && is_coded(name)) {
        EXPECT_FALSE(outcome.state.contains(name)) << name;
        continue;
      }
      ASSERT_TRUE(outcome.state.contains(name)) << name;
      EXPECT_LE(relative(outcome.state.at(name), values), 1e-6) << name;
    }
  }
  EXPECT_GT(run_lines, 0);
  EXPECT_TRUE(replicas_checked > 0 || world().size() != 2);
}

}  // namespace
}  // namespace trireme::test
