// How the weights of a model that is run lie in memory.
// SPDX-License-Identifier: Apache-2.0
#include "app/held_weights.hpp"

#include "base/log.hpp"
#include "base/text.hpp"

namespace trireme::app {

infer::Held held_weights(const Arguments& arguments, Device device) {
  const std::string wanted = arguments.text("--weights", "auto");
  require(wanted == "auto" || wanted == "codes" || wanted == "numbers",
          Status::command_line, "--weights: '{}' is none of auto, codes and numbers",
          wanted);
  const bool placed = arguments.has("--device-map") || arguments.has("--max-memory");
  if (!placed || !device.is_cuda())
    return wanted == "numbers" ? infer::Held::numbers : infer::Held::codes;
  require(wanted != "codes", Status::command_line,
          "--weights codes: on a GPU --device-map and --max-memory place weights as "
          "numbers: leave them out, or write --weights numbers");
  return infer::Held::numbers;
}

void report_codes(comm::World& world, const infer::LoadedModel& model) {
  const auto sum = [&](std::size_t bytes) {
    return world.sum(static_cast<double>(bytes));
  };
  const double codes = sum(model.codes().code_bytes());
  const double decoded = sum(model.codes().number_bytes());
  const double working = sum(model.codes().working_bytes());
  const double others = sum(model.number_bytes());
  if (codes == 0 || world.rank() != 0) return;
  // Standard output is for what the model writes, which others read.
  log::error(
      format("weights   {} of codes in place of {} of {}, {} to decode in, {} of other "
             "weights",
             human_bytes(codes), human_bytes(decoded), name_of(model.dtype()),
             human_bytes(working), human_bytes(others)));
}

}  // namespace trireme::app
