// Which checkpoints are best: their validation losses, in a file and by a link.
// SPDX-License-Identifier: Apache-2.0
#include "io/best_checkpoints.hpp"

#include <algorithm>
#include <cmath>

#include "base/directory.hpp"
#include "base/format.hpp"
#include "base/log.hpp"
#include "base/number.hpp"
#include "base/text.hpp"
#include "io/checkpoint_folder.hpp"
#include "io/files.hpp"
#include "io/json_fields.hpp"

namespace trireme::io {
namespace {

constexpr auto losses_key = "validation_losses";
constexpr std::int64_t most_bytes = std::int64_t{64} << 20;
constexpr int deepest = 2;

ValidationLosses read_losses(const Directory& folder) {
  ValidationLosses losses;
  if (!folder.has(best_file_name)) return losses;
  const std::string source = folder.path_of(best_file_name);
  const Json json =
      parse_json(read_text(folder, best_file_name, most_bytes), deepest, source);
  const JsonField all(json, source);
  if (!all.has(losses_key) || !json[losses_key].is_object())
    all.wrong(format("an object with an object '{}'", losses_key));
  for (const auto& [step, loss] : json[losses_key].items()) {
    const auto number = parse_number<std::int64_t>(step);
    require(number && *number >= 0 && loss.is_number(), Status::bad_content,
            "{}: '{}' has to be a step with the loss of its validation", source, step);
    losses[*number] = loss.get<double>();
  }
  return losses;
}

std::string text_of(const ValidationLosses& losses) {
  Json all = Json::object();
  for (const auto& [step, loss] : losses) all[std::to_string(step)] = loss;
  return Json{{losses_key, std::move(all)}}.dump(2) + "\n";
}

}  // namespace

std::vector<std::int64_t> best_of(const ValidationLosses& losses, int number) {
  std::vector<std::int64_t> steps;
  for (const auto& [step, loss] : losses) steps.push_back(step);
  std::stable_sort(steps.begin(), steps.end(), [&](std::int64_t a, std::int64_t b) {
    return losses.at(a) < losses.at(b);
  });
  if (steps.size() > static_cast<std::size_t>(number))
    steps.resize(static_cast<std::size_t>(number));
  return steps;
}

// Once: from then on this process knows them.
void BestCheckpoints::read() {
  if (known_) return;
  try {
    losses_ = read_losses(Directory::own(directory_));
    known_ = true;
  } catch (const Error& error) {
    log::warn(
        "which checkpoints are best is not known, and none is removed until this file "
        "is mended or removed: {}",
        error.what());
  }
}

void BestCheckpoints::write(std::int64_t step) {
  if (!known_) return;
  const bool had = losses_.erase(step) > 0;
  const bool has = loss_ && std::isfinite(*loss_);
  if (has) losses_[step] = *loss_;
  if (had || has)
    write_text_atomically(Directory::own(directory_), best_file_name, text_of(losses_));
}

std::vector<std::int64_t> BestCheckpoints::among(
    const std::vector<std::int64_t>& complete, const std::vector<std::int64_t>& all) {
  if (!known_) return complete;
  const auto has = [](const std::vector<std::int64_t>& steps, std::int64_t step) {
    return std::find(steps.begin(), steps.end(), step) != steps.end();
  };
  std::erase_if(losses_, [&](const auto& one) { return !has(all, one.first); });
  ValidationLosses candidates = losses_;
  std::erase_if(candidates, [&](const auto& one) { return !has(complete, one.first); });
  const std::vector<std::int64_t> best = best_of(candidates, number_);
  if (best.empty()) return best;
  try {
    const Directory folder = Directory::own(directory_);
    require(!folder.has(best_name) || folder.is_link(best_name), Status::cannot_create,
            "{}: is no link: move it away", folder.path_of(best_name));
    if (point_link(directory_, best_name, step_name(best.front())))
      log::info("step {}  best checkpoint so far: validation loss {}", best.front(),
                fixed(losses_.at(best.front()), 4));
  } catch (const Error& error) {
    log::warn("the link to the best checkpoint is as before: {}", error.what());
  }
  return best;
}

}  // namespace trireme::io
