// Memory on a GPU: what the ledger counts around an engine and its steps equals the plan.
// SPDX-License-Identifier: Apache-2.0
// It counts the working memory of kernels and the pinned memory of messages, too.
#include <functional>

#include "base/cuda_devices.hpp"
#include "kernels/attention.hpp"
#include "kernels/causal_conv.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/embedding.hpp"
#include "kernels/gemm.hpp"
#include "kernels/norm.hpp"
#include "kernels/router.hpp"
#include "kernels/runtime/working_memory.hpp"
#include "plan/plan.hpp"
#include "ranks/equality.hpp"
#include "support/coded_base.hpp"
#include "support/device.hpp"
#include "support/ledger.hpp"

namespace trireme::test {
namespace {

struct Held {
  Bytes bytes{};
  std::int64_t used = 0;  // by the kernel that used most of the working memory
};

void make_products_buffer() {
  Stream stream(test_device());
  const auto matrix = [] {
    return Buffer(test_device(), DType::f32, {16, 16}, MemoryClass::workspace, "x");
  };
  const Buffer a = matrix(), b = matrix(), c = matrix();
  kernels::gemm(stream, c.view(), a.view(), kernels::Transpose::no, b.view(),
                kernels::Transpose::no);
  stream.synchronize();
}

// What an engine and two steps hold more than before; the batch, on the host, is not
// counted. The buffer of all kernels is made anew, so that it belongs to this engine.
// The buffer of the library of products is made once a process, and is not: it is there
// before.
Held measure(const config::RunConfig& config) {
  make_products_buffer();
  kernels::release_working_memory(test_device());
  const Bytes before = ledger();
  Held held;
  comm::Mesh mesh = test_mesh(config);
  train_steps(config, mesh, 2, false, [&](engine::Engine&) {
    held.bytes = minus(ledger(), before);
    held.used = kernels::working_memory_used(test_device());
  });
  held.bytes[static_cast<std::size_t>(MemoryClass::data)] = 0;
  return held;
}

void expect_as_planned(const config::RunConfig& config) {
  const Held held = measure(config);
  plan::PlannedDevice on;
  on.device = test_device();
  const plan::Plan plan = plan::make_plan(config, world().rank(), on);
  for (int c = 0; c < memory_classes; ++c) {
    if (static_cast<MemoryClass>(c) == MemoryClass::data) continue;  // the trainer's
    const auto i = static_cast<std::size_t>(c);
    const bool of_kernels = static_cast<MemoryClass>(c) == MemoryClass::workspace;
    const std::int64_t before = of_kernels ? kernels::product_working_memory() : 0;
    EXPECT_EQ(held.bytes[i], plan.memory[i] - before)
        << name_of(static_cast<MemoryClass>(c));
  }
  comm::Mesh planned =
      comm::Mesh::meta(config.parallel.mesh, world().rank(), config.parallel.folding,
                       test_device(), comm::Transport::mpi);
  const engine::Engine engine(config, planned, Device::meta());
  EXPECT_GT(held.used, 0);
  // On a real GPU libraries decide: sums in a product's epilogue take less, cuDNN may
  // take more than what own kernels plan.
  if (cuda_devices().front().emulated) {
    EXPECT_EQ(held.used, engine.executor().demand().kernels);
  }
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
      {"llama", "fp32", {"parallel.sharding_strategy=ZERO1", "batch.micro=1"}},
      {"gpt2", "bf16", {"model.hidden=288", "batch.micro=1"}},
      {"gpt2", "bf16", {"precision.logits=fp32", "batch.micro=1"}},
      {"gpt2", "fp32", {"run.device=cuda", "run.cuda_graphs=true", "batch.micro=1"}},
      {"llama-tied", "bf16", {"parallel.sharding_strategy=FULL_SHARD", "batch.micro=1"}},
      {"llama", "bf16", {"parallel.tensor=2", "parallel.tensor_chunks=3"}},
      {"gpt2",
       "fp32",
       {"parallel.tensor=2", "parallel.sequence=true", "parallel.tensor_chunks=2"}},
      {"llama",
       "fp8",
       {"parallel.tensor=2", "parallel.tensor_chunks=2", "precision.recipe=te_delayed",
        "model.hidden=64", "model.feed_forward=64", "model.sequence=64", "model.heads=4",
        "model.kv_heads=4", "batch.micro=1"}},
      {"llama", "bf16", {"parallel.pipeline=2", "batch.micro=2"}},
      {"mixtral", "fp32", {"batch.micro=2"}},
      {"llama", "bf16", {"parallel.context=2", "batch.micro=2"}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(std::string(c.model) + " " + c.compute + " " +
                 testing::PrintToString(c.words));
    expect_as_planned(equality_config(
        c.model, c.compute, Words{"model.layers=2", "batch.global=4"} + c.words));
  }
}

// Frozen weights that are codes on the GPU, whole on every rank or sharded, of experts
// too.
TEST(GpuMemory, LedgerIsAsPlannedWithCodes) {
  struct Case {
    const char* model;
    const char* quantize;
    const char* sharding;
  };
  for (const Case& c :
       {Case{"llama-tied", "nf4", "NO_SHARD"}, Case{"mixtral", "int8", "FULL_SHARD"}}) {
    SCOPED_TRACE(format("{} {} {}", c.model, c.quantize, c.sharding));
    auto config =
        equality_config(c.model, "bf16",
                        {"model.layers=2", "batch.global=4", "adapter.rank=2",
                         "model.from=base", std::string("adapter.quantize=") + c.quantize,
                         std::string("parallel.sharding_strategy=") + c.sharding});
    config.adapter.codes = coded_base(config.adapter.quantize, DType::bf16);
    expect_as_planned(config);
  }
}

// One kernel, called on a device with tensors of zeros from the arena.
using Kernel = std::function<void(Stream&, Arena&)>;

// What it takes on the GPU is what its call on meta says, to the byte.
void expect_takes_what_it_plans(const Kernel& kernel) {
  std::int64_t planned = 0;
  {
    Stream stream(Device::meta());
    Arena arena(Device::meta(), 0, MemoryClass::workspace, "test");
    const kernels::WorkingMemoryCount count;
    kernel(stream, arena);
    planned = count.bytes();
  }
  kernels::release_working_memory(test_device());
  Stream stream(test_device());
  Arena arena(test_device(), 4 << 20, MemoryClass::workspace, "test");
  kernel(stream, arena);
  stream.synchronize();
  EXPECT_GT(planned, 0);
  EXPECT_EQ(kernels::working_memory_used(test_device()), planned);
}

TEST(GpuMemory, KernelsTakeWhatTheyPlan) {
  constexpr std::int64_t T = 300, R = 40, B = 2, E = 6, H = 4, W = 8;
  for (const std::int64_t D : {24, 25}) {  // packed rows, and others
    SCOPED_TRACE(D);
    expect_takes_what_it_plans([&](Stream& on, Arena& from) {
      const auto take = [&](const Shape& shape) {
        return from.take(DType::f32, shape, "x");
      };
      kernels::rms_norm_backward(on, take({T, D}), take({T, D}), take({D}), take({T}), {},
                                 take({T, D}), take({D}));
    });
    expect_takes_what_it_plans([&](Stream& on, Arena& from) {
      const auto take = [&](const Shape& shape) {
        return from.take(DType::f64, shape, "x");
      };
      kernels::layer_norm_backward(on, take({T, D}), take({T, D}), take({D}), take({T}),
                                   take({T}), {}, take({T, D}), take({D}), take({D}));
    });
    expect_takes_what_it_plans([&](Stream& on, Arena& from) {
      kernels::add_column_sums(on, from.take(DType::bf16, {T, D}, "x"),
                               from.take(DType::f32, {D}, "sums"));
    });
    expect_takes_what_it_plans([&](Stream& on, Arena& from) {
      kernels::add_sum_of_squares(on, from.take(DType::bf16, {T * 100 * D}, "x"),
                                  from.take(DType::f64, {1}, "sum"));
    });
    expect_takes_what_it_plans([&](Stream& on, Arena& from) {
      const TensorView index_T = from.take(DType::i32, {T}, "index");
      kernels::embedding_backward(on, from.take(DType::f32, {T, D}, "dy"), index_T, 0,
                                  from.take(DType::f32, {R, D}, "dtable"));
    });
  }
  for (const std::int64_t sequence : {T / B, 250 * T}) {  // the second: longer pieces
    SCOPED_TRACE(sequence);
    expect_takes_what_it_plans([&](Stream& on, Arena& from) {
      const auto take = [&](DType dtype, const Shape& shape) {
        return from.take(dtype, shape, "x");
      };
      const Shape rows = {B * sequence, 3}, taps = {3, 4};
      kernels::causal_conv_backward(on, {B, sequence}, take(DType::bf16, rows),
                                    take(DType::bf16, rows), take(DType::bf16, taps),
                                    take(DType::bf16, rows), take(DType::f32, taps));
    });
  }
  expect_takes_what_it_plans([&](Stream& on, Arena& from) {
    kernels::count_choices(on, from.take(DType::i32, {T, 2}, "choice"),
                           from.take(DType::f64, {E}, "counts"));
  });
  expect_takes_what_it_plans([&](Stream& on, Arena& from) {
    kernels::balance_sums(on, kernels::RouterScore::softmax,
                          from.take(DType::f32, {T, E}, "scores"),
                          from.take(DType::i32, {T, 2}, "choice"),
                          from.take(DType::f32, {B, 2, E}, "sums"));
  });
  expect_takes_what_it_plans([&](Stream& on, Arena& from) {
    const auto take = [&](std::int64_t width) {
      return from.take(DType::f32, {T, width}, "x");
    };
    const std::vector<std::int32_t> own = {0, 1, 2, 3};
    const kernels::AttentionShape shape{B, T / B, H, H, W, 1.0, own};
    kernels::attention_backward(on, from, shape, take(H * W), take(H * W), take(H * W),
                                take(H * W), take(H * W), take(H), take(H * W),
                                take(H * W), take(H * W));
  });
}

}  // namespace
}  // namespace trireme::test
