// NCCL on the emulated device: what a mesh makes of it, and that results are MPI's.
// SPDX-License-Identifier: Apache-2.0
// Each rank has a GPU of its own number (TRIREME_EMULATION_DEVICES).
#include <nccl.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <cuda_emulation/control.hpp>
#include <thread>

#include "base/device_memory.hpp"
#include "comm/async_errors.hpp"
#include "comm/nccl_memory.hpp"
#include "comm/trace.hpp"
#include "engine/group_use.hpp"
#include "kernels/cuda_emulation/nccl/counts.hpp"
#include "kernels/elementwise.hpp"
#include "ranks/comm_tensors.hpp"
#include "ranks/equality.hpp"
#include "support/device.hpp"

namespace trireme::test {
namespace {

using comm::Folding;
using comm::Mesh;
using comm::MeshShape;
using comm::Transport;

// A thread of its own begins on GPU 0; looking at collectives from it makes no context
// there (534 MiB a rank on an H100, as others have seen).
TEST(Nccl, LookingFromAnotherThreadMakesNoContext) {
  const Device mine = Device::cuda(world().rank());
  const Mesh mesh(world(), {.data = world().size()}, {}, mine, Transport::nccl);
  Stream stream(mine);
  const Buffer x(mine, DType::f32, {1000}, MemoryClass::workspace, "x");
  comm::Handle handle = mesh.everyone().all_reduce(stream, x.view());
  std::thread([] { comm::async_errors().look(); }).join();
  handle.wait();
  stream.synchronize();
  EXPECT_EQ(cuda_emulation::contexts(), 1);
}

// Communicators of a rank: one for each list of ranks that some group of more than one
// has, that of all ranks with them, and one for each direction of each link.
struct Counted {
  MeshShape shape;
  Folding folding;
  int lists, links;
};

TEST(Nccl, OneCommunicatorForEachListOfRanks) {
  if (world().size() != 4) return;
  const Counted table[] = {
      {{.data = 4}, {}, 1, 0},
      {{.data = 4}, {.shard = 4}, 1, 0},
      {{.data = 4}, {.shard = 2}, 3, 0},
      {{.tensor = 4}, {}, 1, 0},
      {{.pipeline = 4}, {}, 1, 4},  // and the ends, on the first and the last rank
      {{.pipeline = 2, .data = 2}, {}, 3, 2},
      {{.pipeline = 2, .tensor = 2}, {}, 3, 2},
      {{.data = 2, .tensor = 2}, {}, 3, 0},
      {{.data = 2, .tensor = 2}, {.shard = 2}, 4, 0},  // spread counts them otherwise
      {{.context = 4}, {}, 1, 4},
      {{.data = 2, .context = 2}, {}, 3, 2},
      {{.data = 4}, {.expert = 2}, 3, 0},
      {{.data = 4}, {.shard = 4, .expert = 4}, 1, 0},
  };
  for (const Counted& c : table) {
    SCOPED_TRACE(testing::PrintToString(c.lists) + " lists, " +
                 testing::PrintToString(c.links) + " links");
    const Mesh mesh(world(), c.shape, c.folding, Device::cuda(world().rank()),
                    Transport::nccl);
    const bool is_end = c.shape.pipeline > 2 && world().rank() % 3 == 0;
    EXPECT_EQ(cuda_emulation::nccl::counts().communicators,
              c.lists + c.links + (is_end ? 1 : 0));
    const comm::NcclCount planned = comm::count_nccl(c.shape, c.folding);
    EXPECT_EQ(planned.communicators, c.lists + (c.shape.pipeline > 2 ? 1 : 0));
    EXPECT_EQ(planned.links, c.links);
  }
  EXPECT_EQ(cuda_emulation::nccl::counts().communicators, 0);
}

// Without users of some groups, which have lists of ranks of their own here.
TEST(Nccl, GroupsWithoutAUserHaveNone) {
  if (world().size() != 4) return;
  const comm::GroupUse none{.pipeline = false,
                            .data = false,
                            .context = false,
                            .replicas = false,
                            .expert_replicas = false,
                            .embedding = false};
  const Counted table[] = {
      {{.pipeline = 4}, {}, 1, 4},                      // not even the ends
      {{.pipeline = 2, .tensor = 2}, {}, 2, 2},         // the world and tensor
      {{.data = 2, .context = 2}, {.shard = 4}, 1, 2},  // shards are the world
      {{.data = 2, .tensor = 2}, {.shard = 2}, 4, 0},   // shards are the replicas
      {{.data = 4}, {.shard = 2, .expert = 2}, 3, 0},   // copies and experts
  };
  for (const Counted& c : table) {
    SCOPED_TRACE(testing::PrintToString(c.lists) + " lists, " +
                 testing::PrintToString(c.links) + " links");
    const Device mine = Device::cuda(world().rank());
    const Mesh mesh(world(), c.shape, c.folding, mine, Transport::nccl, none);
    EXPECT_EQ(cuda_emulation::nccl::counts().communicators, c.lists + c.links);
    const comm::NcclCount planned = comm::count_nccl(c.shape, c.folding, none);
    EXPECT_EQ(planned.communicators, c.lists);
    EXPECT_EQ(planned.links, c.links);
    if (c.shape.pipeline == 1) continue;
    Stream stream(mine);
    const Buffer x(mine, DType::f32, {10}, MemoryClass::workspace, "x");
    comm::Group& unused = mesh.group(comm::Axis::pipeline);
    // Tensors of the host have their way, and the ends of a pipeline none on the GPU.
    float one = 1;
    Stream host;
    unused.all_reduce(host, TensorView(&one, DType::f32, {1})).wait();
    EXPECT_EQ(one, static_cast<float>(unused.size()));
    if (mesh.embedding_group().size() > 1) {
      EXPECT_THROW(mesh.embedding_group().all_reduce(stream, x.view()), Error);
    }
  }
  EXPECT_EQ(cuda_emulation::nccl::counts().communicators, 0);
}

// Whether communicators share resources is asked of the one that is split: the world's.
// Links are no part of it, since they send and receive at the same time.
TEST(Nccl, CommunicatorsShareResourcesWhereTheDeckSaysSo) {
  if (world().size() != 4) return;
  for (const bool share : {false, true}) {
    world().set_nccl_sharing(share);
    const Mesh mesh(world(), {.pipeline = 2, .data = 2}, {}, Device::cuda(world().rank()),
                    Transport::nccl);
    const auto counts = cuda_emulation::nccl::counts();
    EXPECT_EQ(counts.communicators, 5);
    EXPECT_EQ(counts.families, share ? 3 : 5);  // the world's, and each link
  }
  world().set_nccl_sharing(false);
}

// One flag of abort for all that share resources: what the child runs, which waits for a
// peer that never comes, ends with the abort of its parent, and its calls are refused.
// Without sharing the child goes on.
TEST(Nccl, AbortOfOneEndsItsFamily) {
  if (world().size() != 2) return;
  Stream stream(Device::cuda(world().rank()));
  const Buffer x(stream.device(), DType::f32, {8}, MemoryClass::workspace, "x");
  const auto queue = static_cast<cudaStream_t>(stream.native());
  for (const bool share : {true, false}) {
    ncclUniqueId id{};
    if (world().rank() == 0) {
      ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    }
    const std::string sent = world().broadcast(std::string(id.internal, sizeof id));
    std::memcpy(id.internal, sent.data(), sizeof id);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.splitShare = share ? 1 : 0;
    ncclComm_t parent = nullptr, child = nullptr;
    ASSERT_EQ(ncclCommInitRankConfig(&parent, 2, id, world().rank(), &config),
              ncclSuccess);
    ASSERT_EQ(ncclCommSplit(parent, 0, world().rank(), &child, nullptr), ncclSuccess);
    const auto sum = [&] {
      auto* const at = x.view().data<float>();
      return ncclAllReduce(at, at, 8, ncclFloat32, ncclSum, child, queue);
    };
    ASSERT_EQ(sum(), ncclSuccess);  // of both ranks
    stream.synchronize();
    if (share && world().rank() == 0) {
      ASSERT_EQ(sum(), ncclSuccess);
    }
    ASSERT_EQ(ncclCommAbort(parent), ncclSuccess);
    stream.synchronize();
    EXPECT_EQ(sum(), share ? ncclInvalidUsage : ncclSuccess);
    if (!share) stream.synchronize();
    EXPECT_EQ(ncclCommAbort(child), ncclSuccess);
    world().barrier();
  }
}

// Neighbours make connections to neighbours only: each direction of each link one.
TEST(Nccl, ARingConnectsNeighbours) {
  if (world().size() != 4) return;
  const int before = cuda_emulation::nccl::counts().connections;
  const Mesh mesh(world(), {.pipeline = 4}, {}, Device::cuda(world().rank()),
                  Transport::nccl);
  EXPECT_EQ(cuda_emulation::nccl::counts().connections - before, 4);
}

Outcome train_by(const config::RunConfig& config, Transport transport, int steps = 1) {
  Mesh mesh(world(), config.parallel.mesh, config.parallel.folding,
            Device::cuda(world().rank()), transport, engine::group_use(config));
  return train_steps(config, mesh, steps);
}

// All messages of an exchange are one kernel: one event says when it may start, one that
// it has ended, and each is waited for once, however many ranks there are. Operations are
// used again in any order of waits.
TEST(Nccl, AnExchangeHasOneEvent) {
  const int ranks = world().size(), rank = world().rank();
  const Device mine = Device::cuda(rank);
  const Mesh mesh(world(), {.data = ranks}, {.expert = ranks}, mine, Transport::nccl);
  comm::Group& experts = mesh.experts();
  Stream stream(mine);
  const Shape shape{ranks, 100};
  const Buffer from(mine, DType::f32, shape, MemoryClass::workspace, "from"),
      to(mine, DType::f32, shape, MemoryClass::workspace, "to");
  for (int round = 0; round < 4; ++round) {
    kernels::fill(stream, from.view(), 10.0 * round + rank);
    const cuda_emulation::Calls before = cuda_emulation::calls();
    std::vector<comm::Handle> handles;
    {
      const comm::Group::Exchange exchange(experts);
      for (int peer = 0; peer < ranks; ++peer) {
        if (peer == rank) continue;
        handles.push_back(experts.receive(stream, to.view().rows(peer, 1), peer));
        handles.push_back(experts.send(stream, from.view().rows(peer, 1), peer));
      }
    }
    if (round % 2 == 1) std::reverse(handles.begin(), handles.end());
    for (comm::Handle& handle : handles) handle.wait();
    const cuda_emulation::Calls after = cuda_emulation::calls();
    EXPECT_EQ(after.event_records - before.event_records, 2);
    EXPECT_EQ(after.event_waits - before.event_waits, 2);
    std::vector<float> came(static_cast<std::size_t>(to.view().elements()));
    copy_bytes(stream, to.view(), TensorView(came.data(), DType::f32, shape));
    for (int peer = 0; peer < ranks; ++peer)
      if (peer != rank) {
        EXPECT_EQ(came[static_cast<std::size_t>(100 * peer + 99)], 10.0 * round + peer);
      }
  }
  comm::async_errors().look();
  for (std::int64_t i = 0; i < 8 * (ranks - 1); ++i)
    EXPECT_GE(comm::trace().entry(comm::trace().count() - 1 - i).end_seconds, 0);
}

// Lines of the table of meshes: with "all" in the environment every one of this number of
// ranks, else some. Communicators that share resources run one after the other, which no
// mesh may wait in vain for.
void train_table(bool share) {
  const bool all = std::getenv("TRIREME_TEST_ALL") != nullptr;
  int run = 0;
  world().set_nccl_sharing(share);
  for (const MeshLine& line : read_mesh_table(MESH_TABLE)) {
    if (line.ranks != world().size() || (!all && (!line.bf16 || run == 1))) continue;
    SCOPED_TRACE(line.text);
    const char* compute = line.bf16 ? "bf16" : "fp32";
    const auto config = mesh_config(line, compute);
    expect_same_bits(train_by(config, Transport::nccl), train_by(config, Transport::mpi));
    ++run;
  }
  EXPECT_GT(run, 0);
  world().set_nccl_sharing(false);
}

TEST(Nccl, MeshesTrainAsWithMpi) { train_table(false); }
TEST(Nccl, MeshesThatShareResourcesTrainAsWithMpi) { train_table(true); }

// Graphs between the messages of NCCL, which are posted ahead of need.
TEST(Nccl, PipelinesTrainWithGraphs) {
  const Words words = {"run.device=cuda",
                       "parallel.pipeline=" + std::to_string(world().size()),
                       "batch.micro=1", "batch.global=4"};
  const auto singly = equality_config("llama", "fp32", words);
  const auto graphs =
      equality_config("llama", "fp32", words + Words{"run.cuda_graphs=true"});
  expect_same_bits(train_by(graphs, Transport::nccl, 4),
                   train_by(singly, Transport::mpi, 4));
}

// What groups of a mesh have done: calls and bytes of each kind on each axis.
struct GraphRun {
  Outcome outcome;
  std::vector<std::int64_t> calls, bytes;
  std::int64_t flying = 0;    // entries of the trace that have not ended
  std::int64_t launches = 0;  // of graphs
};

// singly: each kernel is launched by itself, whatever the deck says.
GraphRun train_counted(const config::RunConfig& config, int steps, bool singly = false) {
  GraphRun run;
  Mesh mesh(world(), config.parallel.mesh, config.parallel.folding,
            Device::cuda(world().rank()), Transport::nccl, engine::group_use(config));
  const std::int64_t before = cuda_emulation::graph_launches();
  Resume resume;
  if (singly)
    resume.load = [](engine::Engine& engine) {
      engine.drop_graphs();
      engine.store().initialize(42);
    };
  run.outcome = train_steps(config, mesh, steps, true, {}, resume);
  run.launches = cuda_emulation::graph_launches() - before;
  comm::async_errors().look();
  for (const comm::Group* group :
       {&mesh.group(comm::Axis::tensor), &mesh.group(comm::Axis::context), &mesh.shards(),
        &mesh.copies(), &mesh.replicas()})
    for (const comm::Traffic& traffic : group->traffic()) {
      run.calls.push_back(traffic.calls);
      run.bytes.push_back(traffic.bytes);
    }
  for (std::int64_t i =
           std::max<std::int64_t>(0, comm::trace().count() - comm::Trace::capacity);
       i < comm::trace().count(); ++i)
    run.flying += comm::trace().entry(i).end_seconds < 0 ? 1 : 0;
  return run;
}

// Collectives inside of graphs: bits, and what is counted and traced of each launch, are
// those of kernels that are launched one by one.
TEST(Nccl, TensorAndContextRanksTrainWithGraphs) {
  const std::string ranks = std::to_string(world().size());
  struct Way {
    const char* model;
    Words words;
    std::int64_t actions = 2;  // of a microbatch
  };
  std::vector<Way> ways = {
      {"llama", {"parallel.tensor=" + ranks}},
      {"gpt2-tied", {"parallel.tensor=" + ranks, "parallel.sequence=true"}},
      {"llama", {"parallel.context=" + ranks}},
      {"qwen3_5",
       {"parallel.context=" + ranks,
        R"(model.layer_types=["linear_attention", "full_attention", )"
        R"("linear_attention", "full_attention"])"}}};
  if (world().size() == 4)
    ways = {{"llama", {"parallel.tensor=2", "parallel.pipeline=2"}},
            {"llama",
             {"parallel.tensor=2", "parallel.pipeline=2", "parallel.schedule=zb_h1"},
             3},
            {"llama", {"parallel.tensor=2", "parallel.context=2"}}};
  for (const Way& way : ways) {
    SCOPED_TRACE(testing::PrintToString(way.words));
    const Words words =
        Words{"run.device=cuda", "comm.backend=nccl", "batch.micro=1", "batch.global=4"} +
        way.words;
    const auto singly = equality_config(way.model, "fp32", words);
    const auto graphs =
        equality_config(way.model, "fp32", words + Words{"run.cuda_graphs=true"});
    const GraphRun recorded = train_counted(graphs, 3), plain = train_counted(singly, 3);
    expect_same_bits(recorded.outcome, plain.outcome);
    EXPECT_EQ(recorded.calls, plain.calls);
    EXPECT_EQ(recorded.bytes, plain.bytes);
    EXPECT_EQ(recorded.flying, 0);
    // All but the first step, in which memory takes its size.
    EXPECT_EQ(recorded.launches, 2 * way.actions * 4);
    EXPECT_EQ(plain.launches, 0);
  }
}

// What the ranks gather and reduce of sharded weights and gradients is in the graphs,
// with the buffers that take turns, and so are sums over replicas, and over copies of
// shards, also where a step has one microbatch. Bits are those of no graphs and of MPI;
// calls are those of the same deck whose kernels are launched one by one. Sums over
// replicas in a pipeline begin between the kernels of the last microbatch, which is not
// replayed.
TEST(Nccl, ShardedRanksTrainWithGraphs) {
  struct Way {
    const char* model;
    const char* compute;
    Words words;
    std::int64_t launches;  // of a step
    // Of the first, where no ranks have to record alike: a microbatch finds the graphs of
    // one before it.
    std::int64_t first = 0;
  };
  std::vector<Way> ways = {
      {"llama-tied", "bf16", {"parallel.sharding_strategy=NO_SHARD"}, 8},
      {"llama", "fp32", {"parallel.sharding_strategy=NO_SHARD", "batch.global=2"}, 2},
      {"gpt2-tied", "fp32", {"parallel.sharding_strategy=ZERO1", "batch.global=2"}, 2},
      {"dropout", "fp32", {}, 8},
      {"llama", "fp32", {"parallel.sharding_strategy=SHARD_GRAD_OP"}, 8},
      {"llama", "fp32", {"parallel.sharding_strategy=FULL_SHARD"}, 8},
      {"gpt2-tied",
       "bf16",
       {"parallel.sharding_strategy=FULL_SHARD", "parallel.prefetch=2",
        "recompute.policy=full", "precision.gradient_reduce=bf16"},
       8},
      {"llama-tied",
       "fp16",
       {"parallel.sharding_strategy=FULL_SHARD", "parallel.prefetch=0",
        "parallel.schedule=gpipe"},
       8}};
  if (world().size() == 4)
    ways = {{"llama",
             "fp32",
             {"parallel.sharding_strategy=HYBRID_SHARD", "parallel.shard_group=2"},
             4},
            {"gpt2-tied",
             "bf16",
             {"parallel.sharding_strategy=HYBRID_SHARD", "parallel.shard_group=2",
              "parallel.prefetch=2", "batch.global=4"},
             2},
            {"llama", "fp32", {"parallel.pipeline=2", "parallel.schedule=1f1b"}, 6, 2},
            {"gpt2-tied",
             "fp32",
             {"parallel.sharding_strategy=FULL_SHARD", "parallel.tensor=2",
              "parallel.sequence=true"},
             8},
            {"llama-tied",
             "fp32",
             {"parallel.sharding_strategy=FULL_SHARD", "parallel.pipeline=2",
              "parallel.schedule=interleaved", "parallel.virtual_stages=2"},
             16},
            {"llama",
             "fp32",
             {"parallel.sharding_strategy=FULL_SHARD", "parallel.pipeline=2",
              "parallel.schedule=zb_v", "parallel.virtual_stages=2"},
             24},
            {"llama",
             "bf16",
             {"parallel.sharding_strategy=SHARD_GRAD_OP", "parallel.context=2"},
             8}};
  for (const Way& way : ways) {
    SCOPED_TRACE(testing::PrintToString(way.words));
    const Words words = Words{"run.device=cuda", "comm.backend=nccl", "model.layers=4",
                              "batch.micro=1", "batch.global=8"} +
                        way.words;
    const auto plain = equality_config(way.model, way.compute, words);
    const auto graphs =
        equality_config(way.model, way.compute, words + Words{"run.cuda_graphs=true"});
    const GraphRun recorded = train_counted(graphs, 4),
                   singly = train_counted(graphs, 4, true);
    expect_same_bits(recorded.outcome, train_by(plain, Transport::mpi, 4));
    expect_same_bits(recorded.outcome, singly.outcome);
    EXPECT_EQ(recorded.calls, singly.calls);
    EXPECT_EQ(recorded.bytes, singly.bytes);
    EXPECT_EQ(recorded.flying, 0);
    EXPECT_EQ(recorded.launches, 3 * way.launches + way.first);
    EXPECT_EQ(singly.launches, 0);
  }
}

}  // namespace
}  // namespace trireme::test
