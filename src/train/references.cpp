// References: computed at the start, kept in a file of the run's directory.
// SPDX-License-Identifier: Apache-2.0
#include "train/references.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <utility>

#include "base/log.hpp"
#include "base/split.hpp"
#include "base/stopwatch.hpp"
#include "engine/answer_sums.hpp"

namespace trireme::train {
namespace {

using Clock = std::chrono::steady_clock;

// Between two writes of the file, and how much of the time a write may take.
constexpr double write_every_seconds = 10, write_share = 0.05;

}  // namespace

std::int64_t reference_bytes(const io::SampleSource& source) {
  return source.answers() * static_cast<std::int64_t>(sizeof(double));
}

References::References(const config::RunConfig& config, const std::string& deck,
                       comm::World& world, comm::Mesh& mesh, engine::Engine& engine,
                       Calls calls)
    : config_(config),
      world_(world),
      mesh_(mesh),
      engine_(engine),
      calls_(std::move(calls)),
      file_(config, deck) {}

std::string References::progress() const {
  std::string text;
  for (const ReferencePart& part : parts_)
    text += format("{}{} of {} samples ({})", text.empty() ? "" : ", ", part.samples,
                   part.source->samples(), part.name);
  return text;
}

// From rank 0, which has read it, to all.
void References::share(ReferencePart& part) {
  if (world_.rank() != 0) part.samples = 0;
  part.samples = static_cast<std::int64_t>(world_.max(static_cast<double>(part.samples)));
  part.values.resize(static_cast<std::size_t>(part.source->answers()));
  if (part.samples == 0) return;
  engine::sum_answers(mesh_, part.values);  // the others' are zeros
}

// Whether this model on this mesh makes of a round's answers what the part has.
bool References::gives_again(AnswerPass& pass, const ReferencePart& part,
                             std::int64_t round) {
  const AnswerTable table =
      pass.run_rounds(engine_, mesh_, round, round + 1, calls_.beat);
  for (std::size_t i = 0; i < part.values.size(); ++i)
    if (table.tokens[i] > 0 && std::bit_cast<std::uint64_t>(table.log_probabilities[i]) !=
                                   std::bit_cast<std::uint64_t>(part.values[i]))
      return false;
  return true;
}

bool References::compute(ReferencePart& part) {
  AnswerPass pass(config_, *part.source);
  const std::int64_t rounds = pass.rounds(0), samples = part.source->samples();
  const std::int64_t in_a_round = pass.samples_of_round();
  std::int64_t next = divide_up(part.samples, in_a_round), at_once = 1;
  if (next > 0 && gives_again(pass, part, next - 1)) {
    log::info(
        "reference log-probabilities of {} of {} samples ({}) are those of an "
        "earlier start (reference.h5)",
        part.samples, samples, part.name);
  } else if (next > 0) {
    log::warn(
        "reference.h5: another model at the start made what it has of {} samples "
        "({}), or this one with other kernels; all are computed again",
        part.samples, part.name);
    std::ranges::fill(part.values, 0.0);
    next = part.samples = 0;
  }
  while (next < rounds) {
    auto begin = Clock::now();
    const std::int64_t last = std::min(next + at_once, rounds);
    const AnswerTable table = pass.run_rounds(engine_, mesh_, next, last, calls_.beat);
    for (std::size_t i = 0; i < part.values.size(); ++i)
      if (table.tokens[i] > 0) part.values[i] = table.log_probabilities[i];
    next = last;
    part.samples = std::min(next * in_a_round, samples);
    const double computing = seconds_since(begin);
    begin = Clock::now();
    world_.agree([&] {
      if (world_.rank() == 0) file_.write(parts_);
    });
    const double took = world_.max(computing), writing = world_.max(seconds_since(begin));
    const double wanted = std::max(write_every_seconds, writing / write_share);
    if (2 * took < wanted) at_once *= 2;
    if (took > 2 * wanted) at_once = std::max<std::int64_t>(at_once / 2, 1);
    if (next < rounds && calls_.stops(std::max(2 * took, writing))) return false;
  }
  return true;
}

bool References::start(std::int64_t step, const io::SampleSource& source,
                       Validation& validation) {
  parts_ = {{.name = "training", .source = &source}};
  if (validation.has_pairs())
    parts_.push_back({.name = "validation", .source = validation.source()});
  const auto begin = Clock::now();
  world_.agree([&] {
    if (world_.rank() != 0) return;
    if (step == 0) return file_.find(parts_);
    for (ReferencePart& part : parts_) {
      part.values = file_.read(part);
      part.samples = part.source->samples();
    }
  });
  for (ReferencePart& part : parts_) share(part);
  if (step == 0)
    for (ReferencePart& part : parts_)
      if (!compute(part)) return false;
  log::info(
      "reference log-probabilities of {} answers by the model at the start, {} "
      "(reference.h5)",
      source.answers(), human_seconds(seconds_since(begin)));
  if (parts_.size() > 1) validation.hold_against(parts_[1].values);
  return true;
}

}  // namespace trireme::train
