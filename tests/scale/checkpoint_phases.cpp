// Saving and resuming a checkpoint on simulated ranks, by the program's own code.
// SPDX-License-Identifier: Apache-2.0
#include "scale/checkpoint_phases.hpp"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "io/checkpoint_writer.hpp"
#include "train/checkpoint_choice.hpp"
#include "train/checkpoint_load.hpp"

namespace trireme::scale {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t columns = 4, norm_elements = 16;

void fill(std::vector<float>& values, int first) {
  std::iota(values.begin(), values.end(), static_cast<float>(first));
}

io::Retention keep_one() {
  io::Retention retention;
  retention.keep = 1;
  return retention;
}

bool counts_from(const std::vector<float>& values, int first) {
  std::vector<float> wanted(values.size());
  fill(wanted, first);
  return values == wanted;
}

}  // namespace

MemoryFolder::MemoryFolder() {
  const std::string memory = "/dev/shm";
  const bool in_memory = ::access(memory.c_str(), W_OK | X_OK) == 0;
  path_ = (in_memory ? memory : fs::temp_directory_path().string()) + "/scale-" +
          std::to_string(::getpid());
  fs::remove_all(path_);
  fs::create_directories(path_);
}

MemoryFolder::~MemoryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

Share::Share(int rank, int ranks)
    : rank_(rank),
      ranks_(ranks),
      weight_(columns),
      moment_(columns),
      norm_(norm_elements) {
  fill(weight_, rank), fill(moment_, 2 * rank), fill(norm_, 1);
}

std::vector<io::TensorBox> Share::boxes() {
  const auto box = [&](const char* path, std::vector<float>& values) {
    io::TensorBox own;
    own.path = path;
    own.whole = {ranks_, columns};
    own.begin = {rank_, 0};
    own.data = TensorView(values.data(), DType::f32, {1, columns});
    return own;
  };
  io::TensorBox norm;
  norm.path = "model/norm.weight";
  norm.whole = {norm_elements};
  norm.begin = {0};
  norm.data = TensorView(norm_.data(), DType::f32, {norm_elements});
  norm.write = rank_ == 0;
  return {box("model/weight", weight_), box("optimizer/moment1/weight", moment_), norm};
}

std::vector<io::TensorBox> Share::own_boxes() {
  auto own = boxes();
  own.pop_back();
  return own;
}

void Share::forget() {
  for (auto* values : {&weight_, &moment_, &norm_})
    std::fill(values->begin(), values->end(), -1.0F);
}

bool Share::has_own() const {
  return counts_from(weight_, rank_) && counts_from(moment_, 2 * rank_);
}

bool Share::is_whole() const { return has_own() && counts_from(norm_, 1); }

void save(comm::World& world, const std::string& folder, Share& share,
          std::int64_t step) {
  io::CheckpointInfo info;
  info.program_version = "test";
  info.step = step;
  info.deck = "";
  // What a run leaves to threads is counted with the phase that it belongs to.
  io::CheckpointWriter writer(world, folder, keep_one(), 1, io::RunIn::caller);
  writer.begin(info, share.boxes(), false);
  writer.finish();
}

void make_views(comm::World& world, const std::string& folder) {
  io::CheckpointWriter writer(world, folder, keep_one(), 1, io::RunIn::caller);
  writer.add_views(first_step);
  writer.finish_views();
}

void resume(comm::World& world, const comm::Mesh& mesh, const std::string& folder,
            Share& share) {
  const train::ChosenCheckpoint chosen = train::newest_whole_checkpoint(
      world, folder, train::checkpoint_steps(world, folder, train::Repair::yes));
  require(chosen.reader != nullptr, "{}: no checkpoint", folder);
  train::load_boxes(world, *chosen.reader, share.boxes(), train::replica_groups(mesh));
}

double index_bytes_in(const std::string& folder) {
  return static_cast<double>(fs::file_size(folder + "/step-00000007/index.bin"));
}

}  // namespace trireme::scale
