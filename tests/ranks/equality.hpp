// Comparing trainings of one mesh to the bit.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "support/mesh_run.hpp"
#include "support/mesh_table.hpp"
#include "support/world.hpp"

namespace trireme::test {

using Words = std::vector<std::string>;
using Inspect = std::function<void(engine::Engine&)>;

// The deck of a model of the table of meshes on all ranks of the world, with fewer layers
// and without clipping unless the overrides say so. Words later in the list win.
inline config::RunConfig equality_config(const std::string& model,
                                         const std::string& compute,
                                         const Words& overrides) {
  std::map<std::string, std::string> keys = {{"optimizer.clip", "0"},
                                             {"model.layers", "4"}};
  for (const std::string& word : overrides) {
    const auto equals = word.find('=');
    keys[word.substr(0, equals)] = word.substr(equals + 1);
  }
  MeshLine line{model, world().size(), model, {}, false, false};
  for (const auto& [key, value] : keys) {
    line.text += " " + key + "=" + value;
    line.overrides.push_back(key + "=" + value);
  }
  return mesh_config(line, compute);
}

inline Outcome train(const std::string& model, const std::string& compute,
                     const Words& overrides, int steps = 3, const Inspect& inspect = {}) {
  const auto config = equality_config(model, compute, overrides);
  comm::Mesh mesh = test_mesh(config);
  return train_steps(config, mesh, steps, true, inspect);
}

inline Words operator+(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// A folder of this rank's own, for what is offloaded to a disk.
class DiskFolder {
 public:
  DiskFolder()
      : path_(std::filesystem::temp_directory_path() /
              format("trireme-offload-{}", ::getpid())) {
    std::filesystem::create_directories(path_);
  }
  ~DiskFolder() { std::filesystem::remove_all(path_); }
  DiskFolder(const DiskFolder&) = delete;
  DiskFolder& operator=(const DiskFolder&) = delete;

  Words words(const std::string& offload = "disk") const {
    return {"parallel.offload=" + offload,
            "parallel.offload_directory=" + path_.string()};
  }
  // Files that have a name there.
  bool is_empty() const { return std::filesystem::is_empty(path_); }

 private:
  std::filesystem::path path_;
};

inline bool same_bits(const std::vector<double>& a, const std::vector<double>& b) {
  return a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

// f32 and bf16 are widened without loss, so equal bits here are equal bits there.
inline void expect_same_bits(const Tensors& a, const Tensors& b) {
  ASSERT_EQ(a.size(), b.size());
  ASSERT_FALSE(a.empty());
  for (const auto& [name, values] : a) {
    ASSERT_TRUE(b.contains(name)) << name;
    EXPECT_TRUE(same_bits(values, b.at(name)))
        << name << ": relative difference " << relative(values, b.at(name));
  }
}

// Losses are sums over ranks, in the same order on the same mesh.
inline void expect_same_bits(const Outcome& a, const Outcome& b) {
  expect_same_bits(a.gradients, b.gradients);
  expect_same_bits(a.state, b.state);
  EXPECT_TRUE(same_bits(a.losses, b.losses));
}

inline void expect_close(const Tensors& a, const Tensors& b, double limit) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, values] : a)
    EXPECT_LE(relative(values, b.at(name)), limit) << name;
}

}  // namespace trireme::test
