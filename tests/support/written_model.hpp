// A model with initial weights, written as a checkpoint by all ranks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "io/checkpoint.hpp"
#include "support/tiny_model.hpp"
#include "support/world.hpp"
#include "support/written_checkpoint.hpp"

namespace trireme::test {

// Initial weights of seed 5, below `directory`.
inline void write_model(comm::World& world, const model::ModelConfig& model,
                        const std::string& directory) {
  config::RunConfig config = tiny_run(model);
  config.batch = {world.size(), 1};
  config.parallel.mesh = {.data = world.size()};
  comm::Mesh mesh(world, config.parallel.mesh);
  engine::Engine engine(config, mesh, Device::host());
  engine.store().initialize(5);
  std::vector<io::TensorBox> boxes;
  for (const auto& box : engine.store().state_boxes()) {
    boxes.push_back({std::string(box.section) + "/" + box.named->tensor, box.named->whole,
                     box.global_begin, box.data, box.write});
  }
  io::CheckpointInfo info;
  info.mesh = config.parallel.mesh;
  write_checkpoint(world, directory, info, boxes, 1);
}

// A directory of this job with a written model, removed at the end. Collective.
class WrittenModel {
 public:
  WrittenModel(const model::ModelConfig& model, const std::string& name)
      : directory_(world().broadcast((std::filesystem::temp_directory_path() /
                                      (name + "-" + std::to_string(::getpid())))
                                         .string())) {
    write_model(world(), model, directory_);
  }
  ~WrittenModel() {
    world().barrier();
    if (world().rank() == 0) std::filesystem::remove_all(directory_);
    world().barrier();
  }
  WrittenModel(const WrittenModel&) = delete;
  WrittenModel& operator=(const WrittenModel&) = delete;
  const std::string& directory() const { return directory_; }

 private:
  std::string directory_;
};

}  // namespace trireme::test
