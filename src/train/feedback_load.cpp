// State in checkpoints that a run can do without.
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

bool is_loss_scale(const std::string& path) { return path == "optimizer/loss_scale"; }

bool is_optional(const io::TensorBox& box) {
  return is_feedback(box.path) || is_loss_scale(box.path);
}

}  // namespace

std::vector<io::TensorBox> boxes_to_load(comm::World& world, const std::string& path,
                                         std::vector<io::TensorBox> boxes) {
  const bool mine = std::any_of(boxes.begin(), boxes.end(), is_optional);
  if (world.max(mine ? 1 : 0) == 0) return boxes;
  std::string names;
  world.agree([&] {
    if (world.rank() != 0) return;
    const io::CheckpointReader reader(path, 0, 0);
    for (const auto& entry : reader.tensors())
      if (is_feedback(entry.path) || is_loss_scale(entry.path))
        names += format("{} {}\n", entry.path, entry.shape.elements());
  });
  std::set<std::string> there;
  std::istringstream lines(world.broadcast(names));
  for (std::string line; std::getline(lines, line);) there.insert(line);
  const auto lacks = [&](const auto& is_kind) {
    const bool own = std::any_of(boxes.begin(), boxes.end(), [&](const auto& box) {
      return is_kind(box.path) &&
             !there.contains(format("{} {}", box.path, box.whole.elements()));
    });
    if (world.max(own ? 1 : 0) == 0) return false;
    std::erase_if(boxes, [&](const auto& box) { return is_kind(box.path); });
    return true;
  };
  if (lacks(is_feedback))
    log::info(
        "resume    error feedback starts from zero: the checkpoint has none of this "
        "mesh");
  if (lacks(is_loss_scale))
    log::info(
        "resume    the loss scale starts from precision.loss_scale: the checkpoint was "
        "not "
        "written with precision.compute = \"fp16\" and has none");
  return boxes;
}

}  // namespace trireme::train
