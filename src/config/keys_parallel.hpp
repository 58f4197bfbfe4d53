// Keys of the deck: the mesh of ranks, what they share out and send, and recomputation.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "config/section.hpp"

namespace trireme::config {

// What parallel.sharding_strategy says: what is shared out, and whether within
// groups of parallel.shard_group ranks.
struct ShardingStrategy {
  optim::Sharding what = optim::Sharding::none;
  bool hybrid = false;
  bool gathers() const { return what == optim::Sharding::weights; }
};

// What makes a unit of sharding.
enum class Wrap : std::uint8_t { block, size, names };

enum class RecomputePolicy : std::uint8_t { none, selective, full };

// What recompute.pieces may name.
struct RecomputePiece {
  std::string_view name;
  bool nn::Recompute::*member;
};
inline constexpr std::array recompute_pieces = {
    RecomputePiece{"norm", &nn::Recompute::norm},
    RecomputePiece{"attention", &nn::Recompute::attention},
    RecomputePiece{"activation", &nn::Recompute::activation},
    RecomputePiece{"up", &nn::Recompute::up}};

struct ParallelKeys : Section {
  constexpr ParallelKeys() : Section("parallel") {}

  Integer tensor{
      *this,
      "tensor",
      "ranks",
      "1",
      within(1, 1e6),
      "Ranks that share each layer's matrices and heads; divides heads. Data "
      "parallelism is what remains of the ranks.",
      sets<&RunConfig::parallel, &ParallelSettings::mesh, &comm::MeshShape::tensor>};
  Boolean sequence{*this, "sequence", "false",
                   "Split norms and residuals over the tensor ranks along the sequence.",
                   sets<&RunConfig::parallel, &ParallelSettings::sequence>};
  Integer tensor_chunks{
      *this,
      "tensor_chunks",
      "parts",
      "0",
      within(0, 1024),
      "Parts of the rows of a product whose result is summed over the tensor "
      "ranks: one travels while the next is multiplied; 0: 2 with NCCL, else 1.",
      sets<&RunConfig::parallel, &ParallelSettings::tensor_chunks>};
  Integer context{
      *this,
      "context",
      "ranks",
      "1",
      within(1, 1e6),
      "Ranks that share each sequence in attention.",
      sets<&RunConfig::parallel, &ParallelSettings::mesh, &comm::MeshShape::context>};
  Choice<bool> context_method{
      *this,
      "context_method",
      "\"ring\"",
      {{"ring", false}, {"ulysses", true}},
      "How context ranks attend to each other: ring sends keys and values round; "
      "ulysses swaps positions for heads, which context must divide.",
      sets<&RunConfig::parallel, &ParallelSettings::ulysses>};
  Choice<std::optional<parallel::ContextOrder>> context_order{
      *this,
      "context_order",
      "\"auto\"",
      {{"auto", std::nullopt},
       {"zigzag", parallel::ContextOrder::zigzag},
       {"contiguous", parallel::ContextOrder::contiguous}},
      "Which positions a context rank holds; zigzag gives all the same work; auto: "
      "zigzag for ring, contiguous for ulysses."};
  Integer pipeline{
      *this,
      "pipeline",
      "ranks",
      "1",
      within(1, 1e6),
      "Ranks that hold the model's layers one after the other.",
      sets<&RunConfig::parallel, &ParallelSettings::mesh, &comm::MeshShape::pipeline>};
  Choice<schedule::ScheduleKind> schedule{
      *this,
      "schedule",
      "\"1f1b\"",
      {{"gpipe", schedule::ScheduleKind::gpipe},
       {"1f1b", schedule::ScheduleKind::one_f_one_b},
       {"interleaved", schedule::ScheduleKind::interleaved},
       {"zb_h1", schedule::ScheduleKind::zb_h1},
       {"zb_v", schedule::ScheduleKind::zb_v},
       {"dualpipe_v", schedule::ScheduleKind::dualpipe_v}},
      "Order of forwards and backwards on the pipeline ranks.",
      sets<&RunConfig::parallel, &ParallelSettings::schedule>};
  Integer virtual_stages{
      *this,
      "virtual_stages",
      "stages",
      "1",
      within(1, 1e5),
      "Stages of each pipeline rank: 2 for zb_v and dualpipe_v, 2 or more for "
      "interleaved, else 1.",
      sets<&RunConfig::parallel, &ParallelSettings::virtual_stages>};
  Integers stage_layers{
      *this,
      "stage_layers",
      "blocks",
      "[]",
      within(0, 1e5),
      "Blocks of each stage, in order; 0 for a first stage of the embedding alone and a "
      "last one of the head alone; empty: by work, the head's included, and such stages "
      "where there are one or two blocks too few.",
      sets<&RunConfig::parallel, &ParallelSettings::stage_layers>};
  Integer expert{
      *this,
      "expert",
      "ranks",
      "1",
      within(1, 1e6),
      "Ranks, of the data and context ranks, that share out the experts.",
      sets<&RunConfig::parallel, &ParallelSettings::folding, &comm::Folding::expert>};
  Real expert_memory{
      *this,
      "expert_memory",
      "",
      "0.0",
      within(0, 1e6),
      "Rows that a rank's experts have memory for, as a multiple of an even load; more "
      "come in further rounds, and none is dropped; 0: memory for any load.",
      sets<&RunConfig::parallel, &ParallelSettings::expert_memory>};
  Choice<ShardingStrategy> sharding_strategy{
      *this,
      "sharding_strategy",
      "\"NO_SHARD\"",
      {{"NO_SHARD", ShardingStrategy{optim::Sharding::none}},
       {"ZERO1", ShardingStrategy{optim::Sharding::optimizer}},
       {"SHARD_GRAD_OP", ShardingStrategy{optim::Sharding::gradients}},
       {"FULL_SHARD", ShardingStrategy{optim::Sharding::weights}},
       {"HYBRID_SHARD", ShardingStrategy{optim::Sharding::weights, true}}},
      "What data and context ranks share out instead of repeating: nothing; the "
      "optimizer's state; gradients too; weights too; or all of it within groups "
      "of shard_group ranks."};
  Integer shard_group{
      *this,
      "shard_group",
      "ranks",
      "0",
      within(0, 1e6),
      "Ranks that share out one copy with HYBRID_SHARD; 0: those of a node."};
  Choice<Wrap> wrap{
      *this,
      "wrap",
      "\"block\"",
      {{"block", Wrap::block}, {"size", Wrap::size}, {"names", Wrap::names}},
      "What is sharded and gathered as one unit: each block, as many modules as make "
      "wrap_parameters, or the modules from one of wrap_names to the next."};
  Integer wrap_parameters{*this,           "wrap_parameters",
                          "parameters",    "0",
                          within(0, 1e15), "Least size of a unit with wrap = \"size\"."};
  Strings wrap_names{
      *this, "wrap_names", "[]",
      "With wrap = \"names\": modules that begin a unit, of \"embedding\", \"block 0\", "
      "\"block 1\", ... and \"head\", where * stands for anything; others join the unit "
      "before them. [\"block *\", \"head\"] are the units of wrap = \"block\"."};
  Integer prefetch{*this,
                   "prefetch",
                   "units",
                   "1",
                   within(0, 1000),
                   "Units gathered ahead with FULL_SHARD and HYBRID_SHARD.",
                   sets<&RunConfig::parallel, &ParallelSettings::prefetch>};
  Integer gathered_units{
      *this,
      "gathered_units",
      "units",
      "0",
      within(0, 1e5),
      "Most units gathered at once with FULL_SHARD and HYBRID_SHARD; 0: prefetch "
      "and those in use.",
      sets<&RunConfig::parallel, &ParallelSettings::gathered_units>};
  Bytes bucket_bytes{
      *this,
      "bucket_bytes",
      "bytes",
      "0",
      within(0, 0x1p40),
      "Gradients of about this size are reduced over the data ranks together; 0: 200 "
      "MiB with NCCL, else 25 MiB.",
      sets<&RunConfig::parallel, &ParallelSettings::bucket_bytes>};
  Choice<optim::Offload> offload{
      *this,
      "offload",
      "\"none\"",
      {{"none", optim::Offload::none},
       {"optimizer", optim::Offload::optimizer},
       {"weights", optim::Offload::weights},
       {"disk", optim::Offload::disk},
       {"disk_weights", optim::Offload::disk_weights}},
      "What lives in the host's memory: the optimizer's state, which is updated "
      "there, or sharded weights as well; disk: that state, in a file of each rank; "
      "disk_weights: both, in that file.",
      sets<&RunConfig::parallel, &ParallelSettings::offload>};
  Real offload_fraction{
      *this,
      "offload_fraction",
      "",
      "1",
      above(0, 1),
      "Share of the optimizer's state, and with disk_weights of the weights, that is "
      "offloaded, rounded up to whole units; the rest stays where weights are.",
      sets<&RunConfig::parallel, &ParallelSettings::offload_fraction>};
  String offload_directory{
      *this,
      "offload_directory",
      "\"\"",
      "",
      "Folder on a disk of each node's own for offload = \"disk\" or \"disk_weights\"; "
      "$NAME at its beginning stands for that environment variable of each rank.",
      sets<&RunConfig::parallel, &ParallelSettings::offload_directory>};
  Boolean offload_activations{
      *this, "offload_activations", "false",
      "What blocks keep for their backward waits for it in the host's memory: it is "
      "copied there under the next block's forward, and back under the backward of the "
      "block behind.",
      sets<&RunConfig::parallel, &ParallelSettings::offload_activations>};
  Real offload_activations_fraction{
      *this,
      "offload_activations_fraction",
      "",
      "1",
      above(0, 1),
      "Share of each stage's blocks whose activations are offloaded, rounded up: the "
      "first ones.",
      sets<&RunConfig::parallel, &ParallelSettings::offload_activations_fraction>};
};

struct CommKeys : Section {
  constexpr CommKeys() : Section("comm") {}

  Choice<comm::Backend> backend{
      *this,
      "backend",
      "\"auto\"",
      {{"auto", comm::Backend::automatic},
       {"mpi", comm::Backend::mpi},
       {"nccl", comm::Backend::nccl}},
      "What carries collectives between GPUs: NCCL, or MPI through the host's "
      "memory; auto is NCCL where it is built in and every rank has a GPU of its "
      "own. Between CPUs it is MPI.",
      sets<&RunConfig::run, &RunSettings::backend>};
  Boolean nccl_sharing{
      *this, "nccl_sharing", "false",
      "NCCL's communicators share buffers: less of the GPU's memory, but collectives of "
      "different axes run one after the other.",
      sets<&RunConfig::run, &RunSettings::nccl_sharing>};
  Seconds timeout_seconds{
      *this,
      "timeout_seconds",
      "seconds",
      "600",
      within(0, 1e9),
      "A wait for other ranks that lasts longer ends the job with status 82; 0: "
      "wait for ever.",
      sets<&RunConfig::health, &HealthSettings::timeout_seconds>};
  Bytes staging_bytes{
      *this,
      "staging_bytes",
      "bytes",
      "67108864",
      within(0, 0x1p40),
      "Memory of each group of ranks that sums between hosts pass through, whatever the "
      "number of ranks: a sum that would need more waits for the one that began first. "
      "One alone takes up to 16 MiB; 0: as much as is in flight.",
      sets<&RunConfig::parallel, &ParallelSettings::staging_bytes>};
  Boolean deterministic{
      *this, "deterministic", "true",
      "Sum in a fixed order, so that a repeated run gives the same bits; false is "
      "not available yet."};
  Boolean reproducible{
      *this, "reproducible", "false",
      "Gradients are summed without rounding, so that weights are the same to the bit on "
      "1, 2, 4, ... data ranks, with the same batch.micro; only with NO_SHARD. Takes 8 "
      "bytes more a parameter, and sums travel behind backward.",
      sets<&RunConfig::parallel, &ParallelSettings::reproducible>};
};

struct RecomputeKeys : Section {
  constexpr RecomputeKeys() : Section("recompute") {}

  Choice<RecomputePolicy> policy{
      *this,
      "policy",
      "\"none\"",
      {{"none", RecomputePolicy::none},
       {"selective", RecomputePolicy::selective},
       {"full", RecomputePolicy::full}},
      "Activations computed again in the backward pass: none, the pieces named, or "
      "whole blocks."};
  Strings pieces{
      *this, "pieces", "[]",
      "What selective recomputes: norm, attention, activation, up (outputs of the "
      "norms, the attention core, the activation function, the up projection)."};
  Integer layers{*this,
                 "layers",
                 "blocks",
                 "0",
                 within(0, 1e5),
                 "How many of the first blocks recompute; 0: all.",
                 sets<&RunConfig::recompute, &RecomputeSettings::layers>};
  Boolean partition{
      *this, "partition", "false",
      "With full: split the inputs that are kept over the tensor ranks.",
      sets<&RunConfig::recompute, &RecomputeSettings::what, &nn::Recompute::partition>};
};

namespace key {
inline constexpr ParallelKeys parallel;
inline constexpr CommKeys comm;
inline constexpr RecomputeKeys recompute;
}  // namespace key

}  // namespace trireme::config
