// Recorder: what the log says of a run's steps: before the first, of each, at the end.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>

#include "base/log.hpp"
#include "base/terminal.hpp"
#include "base/text.hpp"
#include "base/text_table.hpp"
#include "engine/run_outlook.hpp"
#include "io/checkpoint_manifest.hpp"
#include "train/recorder.hpp"

namespace trireme::train {
namespace {

constexpr std::size_t label_columns = 10;

std::string scientific(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2e", value);
  return text;
}

std::string pad(const std::string& text, std::size_t width) {
  return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
}

std::string left_text(double seconds) {
  return seconds > 0 ? human_seconds(seconds) : "0 s";
}

std::string percent(double share) { return fixed(100 * share, 1) + " %"; }

// "[=====>    ]"
std::string bar(double share, std::size_t width) {
  const auto full =
      static_cast<std::size_t>(std::clamp(share, 0.0, 1.0) * static_cast<double>(width));
  std::string text(full, '=');
  if (full < width) text += '>';
  text.resize(width, ' ');
  return "[" + text + "]";
}

template <class... Args>
void say(std::string_view text, const Args&... args) {
  log::line(wrapped(format(text, args...), terminal::prose_columns(), label_columns));
}

}  // namespace

void Recorder::announce() const {
  if (!log::speaks()) return;
  const std::string_view compute = name_of(config_.precision.compute);
  const auto all = model::flops_per_token(config_.model);
  say("flops     {} per token = 6 N + 12 L D S{} (causal half of attention: {}); mfu is "
      "the share of the {} in {}: {}FLOP/s",
      human_count(of_all_steps_.flops.full),
      of_all_steps_.flops.full == all.full ? ""
                                           : ", without gradients of frozen matrices",
      human_count(of_all_steps_.flops.causal),
      peak_.by_data_sheet ? format("dense peak of {} x {}", world_.size(), gpu_name_)
                          : std::string("best rate seen so far, that of GEMMs now"),
      compute, human_count(peak_.peak));
  if (peak_.by_data_sheet)
    say("gemm      {}FLOP/s measured now in {}, {} % of that peak",
        human_count(peak_.gemm), compute, fixed(100 * peak_.gemm / peak_.peak, 1));
}

void Recorder::print(const engine::StepResult& result) const {
  const double tokens = tokens_of_step();
  const double rate_of_flops = tokens / times_.total * of_all_steps_.flops.full;
  const std::string total_steps = std::to_string(config_.run.steps);
  const auto steps_left =
      static_cast<double>(config_.trained_steps(progress_.step, config_.run.steps));
  const double left = progress_.step_seconds * steps_left;
  // What a narrow terminal has no room for is in metrics.jsonl: memory goes first, which
  // hardly changes, then the schedule's rate.
  enum Worth { always, memory, rate, rounds, mfu, right, norm, margin };
  std::vector<terminal::Field> fields = {
      {format("step {}/{}", pad(std::to_string(progress_.step), total_steps.size()),
              total_steps),
       always},
      {"loss " + pad(fixed(result.loss, 4), 8), always}};
  if (config_.learns_pairs()) {
    const auto& means = result.pairs.values;
    fields.push_back({"margin " + fixed(means[nn::PreferenceSums::preferred] -
                                            means[nn::PreferenceSums::other],
                                        3),
                      margin});
    fields.push_back(
        {"right " + fixed(100 * means[nn::PreferenceSums::right], 1) + " %", right});
  }
  fields.push_back({"norm " + pad(fixed(result.gradient_norm, 3), 8), norm});
  fields.push_back({"lr " + scientific(result.learning_rate), rate});
  fields.push_back({pad(human_count(tokens / times_.total), 6) + " tok/s", always});
  fields.push_back(
      {"mfu " + pad(fixed(100 * rate_of_flops / peak_.peak, 1), 4) + " %", mfu});
  if (config_.parallel.expert_memory > 0)
    fields.push_back({format("rounds {}, most {}", fixed(agreed_.rounds.mean(), 2),
                             fixed(agreed_.rounds.max, 0)),
                      rounds});
  fields.push_back({"mem " + human_bytes(agreed_.memory_peak), memory});
  fields.push_back(
      {"left " + left_text(left), always, std::string_view("left 12 h 34 min").size()});
  log::info("{}", terminal::line_of(fields, terminal::columns()));
  log::debug("          step {}  data {}  compute {}  communication {}  optimizer {}  {}",
             progress_.step, human_seconds(times_.data), human_seconds(times_.compute),
             human_seconds(times_.communication), human_seconds(times_.optimizer),
             human_bytes(agreed_.memory_peak));
}

// The line that moves, on a terminal.
void Recorder::show_progress(const engine::StepResult& result) const {
  if (!log::is_live()) return;
  const double share = static_cast<double>(progress_.step) /
                       static_cast<double>(std::max<std::int64_t>(config_.run.steps, 1));
  log::live(format(
      "{} {} {}/{}  loss {}  {} tok/s  left {}", bar(share, 20), percent(share),
      progress_.step, config_.run.steps, fixed(result.loss, 4),
      human_count(tokens_of_step() / times_.total),
      left_text(progress_.step_seconds * static_cast<double>(config_.trained_steps(
                                             progress_.step, config_.run.steps)))));
}

// At the end of the run: means over its steps. Collective.
void Recorder::report() {
  if (meter_.laps() == 0) return;
  const IdleShares idle =
      pipeline_times_.compare(engine_.activation_shape(), config_.precision.compute);
  if (!log::speaks()) return;
  const auto print = [](const std::string& title, std::string table) {
    if (table.empty()) return;
    table.pop_back();
    log::line(title + "\n" + table);
  };
  print(format("traffic   a step of rank {}", world_.rank()),
        engine::traffic_table(engine::all_laps(meter_), meter_.laps(),
                              engine::TrafficColumns::measured));
  if (const auto& graphs = engine_.executor().graphs())
    log::info("graphs    {} recorded on rank {}, launched {} times", world_.rank(),
              graphs->recorded(), graphs->launched());
  if (idle.measured.empty()) return;
  std::vector<TextRow> rows = {{"rank", "blocks", "idle", "simulated", "live"}};
  const auto outlook = engine::pipeline_outlook(config_);
  for (std::size_t r = 0; r < outlook.size(); ++r) {
    rows.push_back({std::to_string(r), engine::describe_blocks(outlook[r]),
                    percent(idle.measured[r]), percent(idle.simulated[r]),
                    std::to_string(outlook[r].live_microbatches)});
  }
  print("pipeline  idle share of a step (of the last " +
            std::to_string(PipelineTimes::most_steps) + "), and microbatches held",
        text_table(rows, 2, 2));
}

void Recorder::finish(Status status) {
  const std::int64_t steps = config_.trained_steps(progress_.first_step, progress_.step);
  write("event", io::Record()
                     .set("step", progress_.step)
                     .set("event", std::string("end"))
                     .set("status", static_cast<std::int64_t>(status))
                     .set("seconds", sums_.seconds));
  trackers_.finish(status == Status::done ? io::RunEnd::done : io::RunEnd::stopped);
  if (steps == 0 && config_.passes_over(progress_.step))
    log::always(format("{}  no step was trained: data.skip_steps passes over them",
                       status == Status::done ? "done    " : "stopped "));
  if (steps == 0 || sums_.seconds <= 0) return;
  const double rate = static_cast<double>(sums_.tokens) / sums_.seconds;
  const std::string& directory = config_.run.directory;
  const std::int64_t saved = std::max(sums_.saved, progress_.own_steps);
  log::always(wrapped(
      format("{}  {} steps, {} tokens in {}, mean {} tok/s, loss {}\n"
             "          {}\n"
             "          plots of {}/metrics.jsonl: trireme report {}",
             status == Status::done ? "done    " : "stopped ", steps,
             human_count(static_cast<double>(sums_.tokens)), human_seconds(sums_.seconds),
             human_count(rate), fixed(sums_.loss, 4),
             saved > 0
                 ? format("checkpoint {}/checkpoints/{}", directory, io::step_name(saved))
                 : std::string("no checkpoint"),
             directory, directory),
      terminal::prose_columns(), label_columns));
}

}  // namespace trireme::train
