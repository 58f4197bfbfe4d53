// State that a checkpoint may lack.
// SPDX-License-Identifier: Apache-2.0
#include "train/feedback_load.hpp"

#include <algorithm>
#include <set>
#include <sstream>

#include "base/log.hpp"

namespace trireme::train {
namespace {

bool is_feedback(const std::string& path) {
  return path.starts_with("optimizer/feedback/");
}
bool is_moment1(const std::string& path) {
  return path.starts_with("optimizer/moment1/") ||
         path.starts_with("optimizer/moment1_scale/");
}
bool is_moment2(const std::string& path) {
  return path.starts_with("optimizer/moment2/");
}

bool is_loss_scale(const std::string& path) { return path == "optimizer/loss_scale"; }

using Kind = bool (*)(const std::string&);

// Whether any rank has a box of the kind.
bool wanted(comm::World& world, const std::vector<io::TensorBox>& boxes, Kind kind) {
  const bool mine = std::any_of(boxes.begin(), boxes.end(),
                                [&](const auto& box) { return kind(box.path); });
  return world.max(mine ? 1 : 0) > 0;
}

// Tensors of these kinds in the checkpoint, as "path elements".
std::set<std::string> tensors_in(comm::World& world, const std::string& path) {
  std::string names;
  world.agree([&] {
    if (world.rank() != 0) return;
    const io::CheckpointReader reader(path, 0, 0);
    for (const auto& entry : reader.tensors())
      if (is_feedback(entry.path) || is_moment1(entry.path) || is_moment2(entry.path) ||
          is_loss_scale(entry.path))
        names += format("{} {}\n", entry.path, entry.shape.elements());
  });
  std::set<std::string> there;
  std::istringstream lines(world.broadcast(names));
  for (std::string line; std::getline(lines, line);) there.insert(line);
  return there;
}

}  // namespace

std::vector<io::TensorBox> boxes_to_load(comm::World& world, const std::string& path,
                                         std::vector<io::TensorBox> boxes) {
  const bool feedback = wanted(world, boxes, is_feedback);
  const bool moment1 = wanted(world, boxes, is_moment1);
  const bool moment2 = wanted(world, boxes, is_moment2);
  const bool loss_scale = wanted(world, boxes, is_loss_scale);
  if (!feedback && !moment1 && !moment2 && !loss_scale) return boxes;
  const std::set<std::string> there = tensors_in(world, path);
  const auto has = [&](Kind kind) {
    return std::any_of(there.begin(), there.end(), [&](const std::string& line) {
      return kind(line.substr(0, line.find(' ')));
    });
  };
  const auto leave_out = [&](Kind kind, const char* line) {
    std::erase_if(boxes, [&](const auto& box) { return kind(box.path); });
    log::info("resume    {}", line);
  };
  // 1. moments
  world.agree([&] {
    require(
        !moment2 || has(is_moment2), Status::bad_content,
        "{}: has no second moments, which optimizer.name = \"adamw\" goes on with: it "
        "was written by another optimizer; write optimizer.name = \"sgd\", or start "
        "from the beginning in another run.directory",
        path);
  });
  if (moment1 && !has(is_moment1))
    leave_out(is_moment1,
              "momentum starts from zero: the checkpoint was written without any "
              "(optimizer.betas[0] = 0)");
  // 2. the scale of the loss
  if (loss_scale && !has(is_loss_scale))
    leave_out(is_loss_scale,
              "the loss scale starts from precision.loss_scale: the checkpoint was not "
              "written with precision.compute = \"fp16\" and has none");
  // 3. error feedback
  const bool lacks = std::any_of(boxes.begin(), boxes.end(), [&](const auto& box) {
    return is_feedback(box.path) &&
           !there.contains(format("{} {}", box.path, box.whole.elements()));
  });
  if (world.max(lacks ? 1 : 0) > 0)
    leave_out(is_feedback,
              "error feedback starts from zero: the checkpoint has none of this mesh");
  return boxes;
}

}  // namespace trireme::train
