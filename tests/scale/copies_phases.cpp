// A restart from copies in the memory of nodes, by the program's own code.
// SPDX-License-Identifier: Apache-2.0
#include "scale/copies_phases.hpp"

#include <filesystem>

#include "io/run_status.hpp"
#include "io/shard_copies.hpp"
#include "scale/growth.hpp"
#include "train/checkpoint_load.hpp"

namespace trireme::scale {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t step = 7;
constexpr auto start_name = "start";

// The folder of the run's copies that find_partners() has made there.
std::string copies_in(const std::string& memory) {
  return fs::directory_iterator(memory)->path().string();
}

}  // namespace

std::string node_memory(const std::string& folder, int node) {
  return folder + "/node-" + std::to_string(node);
}

void make_nodes(const std::string& folder, int nodes) {
  for (int node = 0; node < nodes; ++node)
    fs::create_directories(node_memory(folder, node));
  io::RunStatus status;
  status.starts.push_back({0, 1, io::this_process(), 0, 0, start_name});
  io::write_run_status(folder, status);
}

std::unique_ptr<train::PartnerCopies> find_partners(comm::World& world, comm::Mesh& mesh,
                                                    const std::string& folder) {
  config::RunConfig config;
  config.run.directory = folder;
  config.checkpoint.partner = 1;
  config.checkpoint.partner_directory = node_memory(folder, world.rank() / ranks_on_node);
  return std::make_unique<train::PartnerCopies>(world, mesh, config);
}

void copy_shard(const std::string& folder, int rank, int ranks, Share& share) {
  io::CheckpointInfo info;
  info.program_version = "test";
  info.step = step;
  info.mesh.data = ranks;
  info.attempt = start_name;
  const int node = rank / ranks_on_node, nodes = ranks / ranks_on_node;
  for (const int other : {node, (node + 1) % nodes})
    io::ShardCopies(copies_in(node_memory(folder, other)))
        .write(info, share.own_boxes(), rank, ranks);
}

void restart(comm::World& world, const comm::Mesh& mesh, train::PartnerCopies& copies,
             Share& share) {
  const train::ChosenCheckpoint chosen = copies.find(-1, step, share.own_boxes());
  require(chosen.reader != nullptr, "the copies were not found");
  train::load_boxes(world, *chosen.reader, share.own_boxes(),
                    train::replica_groups(mesh));
}

}  // namespace trireme::scale
