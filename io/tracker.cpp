// Names and numbers that trackers share.
// SPDX-License-Identifier: Apache-2.0
#include "io/tracker.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace trireme::io {
namespace {

struct Group {
  std::string_view key, tag;
};
constexpr std::array groups = {
    Group{"loss", "train/loss"},
    Group{"grad_norm", "train/grad_norm"},
    Group{"learning_rate", "train/learning_rate"},
    Group{"loss_scale", "train/loss_scale"},
    Group{"tokens", "train/tokens"},
    Group{"validation_loss", "validation/loss"},
    Group{"validation_perplexity", "validation/perplexity"},
    Group{"validation_accuracy", "validation/accuracy"},
    Group{"tokens_per_second", "speed/tokens_per_second"},
    Group{"mfu", "speed/mfu"},
    Group{"mfu_causal", "speed/mfu_causal"},
    Group{"model_tflops", "speed/model_tflops"},
    Group{"peak_tflops", "speed/peak_tflops"},
};

}  // namespace

std::string tag_of(const std::string& key) {
  for (const auto& group : groups)
    if (group.key == key) return std::string(group.tag);
  if (key.find('.') != std::string::npos) {  // of a record within
    std::string tag = key;
    std::replace(tag.begin(), tag.end(), '.', '/');
    return tag;
  }
  if (key.ends_with("_bytes")) return "memory/" + key;
  if (key.ends_with("_seconds")) return "time/" + key;
  return "other/" + key;
}

StepScalars scalars_of(const Record& record) {
  StepScalars out;
  for (const auto& [key, value] : record.numbers()) {
    if (key == "step")
      out.step = static_cast<std::int64_t>(value);
    else if (key != "wall_time")
      out.scalars.emplace_back(tag_of(key), value);
  }
  return out;
}

}  // namespace trireme::io
