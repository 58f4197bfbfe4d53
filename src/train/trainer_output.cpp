// Trainer: metrics, validation, gradient dumps.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>

#include "base/log.hpp"
#include "engine/whole_tensors.hpp"
#include "io/checkpoint_manifest.hpp"
#include "io/files.hpp"
#include "io/hdf5_file.hpp"
#include "kernels/elementwise.hpp"
#include "train/sample_list.hpp"
#include "train/trainer.hpp"

namespace trireme::train {
namespace {

std::string scientific(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2e", value);
  return text;
}

std::string pad(const std::string& text, std::size_t width) {
  return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
}

io::Record loss_scale_record(const std::optional<optim::LossScaler>& scaler) {
  io::Record record;
  if (scaler)
    record.set("loss_scale", scaler->scale()).set("overflows", scaler->skipped());
  return record;
}

}  // namespace

void Trainer::write_metrics(const io::Record& record) {
  metrics_->write(record);
  if (events_) events_->write(record);
}

void Trainer::record(double loss, double norm, double rate, const StepTimes& times) {
  const auto flops = model::flops_per_token(config_.model);
  const double tokens =
      static_cast<double>(config_.batch.global * config_.model.sequence);
  const double tokens_per_second = tokens / times.total;
  usual_seconds_ =
      usual_seconds_ == 0 ? times.total : 0.9 * usual_seconds_ + 0.1 * times.total;
  if (metrics_) {
    write_metrics(io::Record()
                      .set("step", step_)
                      .set("loss", loss)
                      .set("grad_norm", norm)
                      .set("learning_rate", rate)
                      .set("tokens", tokens_)
                      .set("step_seconds", times.total)
                      .set("tokens_per_second", tokens_per_second)
                      .set("mfu", tokens_per_second * flops.full / peak_flops_)
                      .set("mfu_causal", tokens_per_second * flops.causal / peak_flops_)
                      .set("model_tflops", tokens_per_second * flops.full * 1e-12)
                      .set("memory_peak_bytes", memory_peak_)
                      .set("allocations", memory_allocations())
                      .set("resident_bytes", resident_bytes())
                      .set("data_seconds", times.data)
                      .set("compute_seconds", times.compute)
                      .set("communication_seconds", times.communication)
                      .set("optimizer_seconds", times.optimizer)
                      .append(accounts())
                      .append(skipped_ ? io::Record().set("skipped", std::int64_t{1})
                                       : io::Record())
                      .append(loss_scale_record(scaler_)));
  }
  if (step_ % config_.metrics.every == 0 || step_ == config_.run.steps) {
    print(loss, norm, rate, times);
  }
}

void Trainer::print(double loss, double norm, double rate, const StepTimes& times) const {
  const auto flops = model::flops_per_token(config_.model);
  const double tokens =
      static_cast<double>(config_.batch.global * config_.model.sequence);
  const double rate_of_flops = tokens / times.total * flops.full;
  const std::string of = std::to_string(config_.run.steps);
  const double left = usual_seconds_ * static_cast<double>(config_.run.steps - step_);
  log::info("step {}/{}  loss {}  norm {}  lr {}  {} tok/s  {}FLOP/s  mfu {} %  left {}",
            pad(std::to_string(step_), of.size()), of, pad(fixed(loss, 4), 8),
            pad(fixed(norm, 3), 8), scientific(rate),
            pad(human_count(tokens / times.total), 6), pad(human_count(rate_of_flops), 6),
            pad(fixed(100 * rate_of_flops / peak_flops_, 1), 4), human_seconds(left));
}

void Trainer::validate() {
  const auto begin = std::chrono::steady_clock::now();
  const double loss = validation_loss();
  validation_seconds_ =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  log::info("step {}  validation loss {}  perplexity {}", step_, fixed(loss, 4),
            fixed(std::exp(loss), 2));
  if (metrics_) {
    write_metrics(io::Record()
                      .set("step", step_)
                      .set("validation_loss", loss)
                      .set("validation_perplexity", std::exp(loss)));
  }
}

// Mean loss over the first validation sequences, dealt out to the data ranks a microbatch
// at a time; rows that are left over in the last one are ignored.
double Trainer::validation_loss() {
  const auto& positions = engine_->positions();
  const auto P = static_cast<std::int64_t>(positions.size());
  const std::int64_t B = config_.batch.micro, S = config_.model.sequence, T = B * P;
  const std::int64_t all = validation_source_->windows();
  const std::int64_t limit = config_.metrics.validate_sequences;
  const std::int64_t sequences = limit > 0 ? std::min(limit, all) : all;
  const TensorView ids = validation_batch_.view();
  const TensorView inputs_T = ids.rows(0, T), targets_T = ids.rows(T, T);
  auto inputs = inputs_T.span<std::int32_t>(), targets = targets_T.span<std::int32_t>();
  auto sample = ids.rows(2 * T, S + 1).span<std::int32_t>();
  const std::int64_t ranks = config_.parallel.mesh.data;
  double loss = 0, valid = 0;
  // As many rounds on every rank, for ranks that share weights or experts work together:
  // in the last one some may have nothing but ignored rows.
  for (std::int64_t round = 0; round * ranks * B < sequences; ++round) {
    const std::int64_t first = (round * ranks + mesh_.coordinate(comm::Axis::data)) * B;
    watchdog_->beat("validation", step_);
    std::fill(inputs.begin(), inputs.end(), 0);
    std::fill(targets.begin(), targets.end(), -100);
    for (std::int64_t row = 0; row < B && first + row < sequences; ++row) {
      validation_source_->sample(first + row, sample);
      for (std::int64_t i = 0; i < P; ++i) {
        const auto p = static_cast<std::size_t>(positions[static_cast<std::size_t>(i)]);
        const auto at = static_cast<std::size_t>(row * P + i);
        inputs[at] = std::max(sample[p], 0);
        targets[at] = sample[p + 1];
      }
    }
    valid += static_cast<double>(
        std::count_if(targets.begin(), targets.end(), [](auto t) { return t >= 0; }));
    loss += engine_->evaluate(inputs_T, targets_T);
  }
  totals_.sum_validation(loss, valid);
  return loss / std::max(valid, 1.0);
}

// Which samples the step under way is made of.
void Trainer::dump_samples() {
  const auto& steps = config_.debug.dump_samples;
  if (std::find(steps.begin(), steps.end(), step_ + 1) == steps.end()) return;
  world_.agree([&] {
    if (world_.rank() != 0) return;
    io::write_text_atomically(Directory(config_.run.directory).make("samples"),
                              io::step_name(step_ + 1) + ".jsonl",
                              list_samples(config_, *source_, step_ + 1));
  });
}

// Every tensor's unclipped gradient, whole, by name.
void Trainer::dump_gradients() {
  const auto& steps = config_.debug.dump_gradients;
  if (std::find(steps.begin(), steps.end(), step_ + 1) == steps.end()) return;
  std::optional<io::Hdf5File> file;
  world_.agree([&] {
    if (world_.rank() != 0) return;
    file.emplace(Directory(config_.run.directory).make("gradients"),
                 io::step_name(step_ + 1) + ".h5");
  });
  const auto boxes = engine_->store().gradient_boxes();
  for (const auto& [name, shape] : engine::all_tensors(world_, boxes)) {
    const Buffer whole(Device::host(), config_.precision.accumulate, shape,
                       MemoryClass::workspace, "gradient dump");
    engine::gather_whole(mesh_, boxes, name, whole.view());
    if (scaler_) {
      Stream stream;
      kernels::scale(stream, whole.view(), 1.0 / scaler_->scale());
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
