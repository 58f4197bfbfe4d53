// Dumps: gradients as HDF5, samples as JSON lines.
// SPDX-License-Identifier: Apache-2.0
#include "train/dumps.hpp"

#include <algorithm>
#include <optional>

#include "engine/whole_tensors.hpp"
#include "io/checkpoint_manifest.hpp"
#include "io/files.hpp"
#include "io/hdf5_file.hpp"
#include "kernels/elementwise.hpp"
#include "train/sample_list.hpp"

namespace trireme::train {
namespace {

bool names(const std::vector<std::int64_t>& steps, std::int64_t step) {
  return std::find(steps.begin(), steps.end(), step) != steps.end();
}

}  // namespace

void Dumps::write_samples(std::int64_t step) {
  if (!names(config_.debug.dump_samples, step)) return;
  world_.agree([&] {
    if (world_.rank() != 0) return;
    io::write_text_atomically(Directory(config_.run.directory).make("samples"),
                              io::step_name(step) + ".jsonl",
                              list_samples(config_, source_, order_, step));
  });
}

std::optional<kernels::StepLimits> Dumps::limits(std::int64_t step) {
  if (names(config_.debug.dump_gradients, step)) return std::nullopt;
  return kernels::StepLimits{};
}

void Dumps::gradients_ready(double loss_scale) {
  if (!names(config_.debug.dump_gradients, step_)) return;
  std::optional<io::Hdf5File> file;
  world_.agree([&] {
    if (world_.rank() != 0) return;
    file.emplace(Directory(config_.run.directory).make("gradients"),
                 io::step_name(step_) + ".h5");
  });
  const auto boxes = engine_.store().gradient_boxes();
  for (const auto& [name, shape] : engine::all_tensors(world_, boxes)) {
    const Buffer whole(Device::host(), config_.precision.accumulate, shape,
                       MemoryClass::workspace, "gradient dump");
    engine::gather_whole(mesh_, boxes, name, whole.view(), 0);
    if (loss_scale != 1.0) {
      Stream stream;
      kernels::scale(stream, whole.view(), 1.0 / loss_scale);
    }
    world_.agree([&, &name = name] {
      if (file) file->write(name.substr(name.find('/') + 1), whole.view());
    });
  }
  world_.agree([&] {
    if (file) file->close();
  });
}

}  // namespace trireme::train
