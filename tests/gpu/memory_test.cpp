// Memory on a GPU: what the ledger counts around an engine and its steps equals the plan,
// with the working memory of kernels and the pinned memory of messages.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/working_memory.hpp"
#include "plan/plan.hpp"
#include "ranks/equality.hpp"
#include "support/device.hpp"
#include "support/ledger.hpp"
#include "train/step_totals.hpp"

namespace trireme::test {
namespace {

struct Held {
  Bytes bytes{};
  std::int64_t used = 0;  // by the kernel that used most of the working memory
};

// What an engine and two steps hold more than before; the batch, on the host, is not
// counted. The buffer of all kernels is made anew, so that it belongs to this engine.
Held measure(const train::RunConfig& config) {
  kernels::release_working_memory(test_device());
  const Bytes before = ledger();
  Held held;
  comm::Mesh mesh = test_mesh(config);
  train::StepTotals totals(mesh, Device::host());
  totals.tokens(1.0);
  train_steps(config, mesh, 2, false, [&](train::Engine&) {
    totals.finish({}, {});
    held.bytes = minus(ledger(), before);
    held.used = kernels::working_memory_used(test_device());
  });
  held.bytes[static_cast<std::size_t>(MemoryClass::data)] = 0;
  return held;
}

void expect_as_planned(const train::RunConfig& config) {
  const Held held = measure(config);
  const plan::Plan plan =
      plan::make_plan(config, world().rank(), {test_device(), comm::Transport::mpi});
  for (int c = 0; c < memory_classes; ++c) {
    const auto i = static_cast<std::size_t>(c);
    EXPECT_EQ(held.bytes[i], plan.memory[i]) << name_of(static_cast<MemoryClass>(c));
  }
  comm::Mesh planned =
      comm::Mesh::meta(config.parallel.mesh, world().rank(), config.parallel.folding,
                       test_device(), comm::Transport::mpi);
  const train::Engine engine(config, planned, Device::meta());
  EXPECT_GT(held.used, 0);
  EXPECT_EQ(held.used, engine.demand().kernels);
}

// Of each kind of kernel memory one model at least; rows that make different kernels need
// the most: many tokens (attention, sorted tokens), a wide model (norms, biases).
TEST(GpuMemory, LedgerIsAsPlanned) {
  struct Case {
    const char* model;
    const char* compute;
    Words words;
  };
  const std::vector<Case> cases = {
      {"llama", "fp32", {"parallel.sharding_strategy=ZERO1", "batch.micro=2"}},
      {"gpt2", "bf16", {"model.hidden=288", "model.layers=2", "batch.micro=1"}},
      {"llama-tied", "bf16", {"parallel.sharding_strategy=FULL_SHARD", "batch.micro=1"}},
      {"llama", "bf16", {"parallel.tensor=2", "parallel.tensor_chunks=3"}},
      {"gpt2",
       "fp32",
       {"parallel.tensor=2", "parallel.sequence=true", "parallel.tensor_chunks=2"}},
      {"llama", "bf16", {"parallel.pipeline=2", "batch.micro=2"}},
      {"mixtral", "fp32", {"batch.micro=2"}},
      {"llama", "bf16", {"parallel.context=2", "batch.micro=2"}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(std::string(c.model) + " " + c.compute + " " +
                 testing::PrintToString(c.words));
    expect_as_planned(equality_config(c.model, c.compute, c.words));
  }
}

}  // namespace
}  // namespace trireme::test
