// Asks a model every question of a file, and counts how often it is right.
// SPDX-License-Identifier: Apache-2.0
#include "app/evaluate_choices.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "app/choice_file.hpp"
#include "app/choice_verdicts.hpp"
#include "app/generate_batch.hpp"
#include "app/result_path.hpp"
#include "base/log.hpp"
#include "base/path.hpp"
#include "base/text.hpp"
#include "comm/mesh.hpp"
#include "infer/sampler.hpp"
#include "infer/text_scores.hpp"
#include "io/files.hpp"
#include "kernels/runtime/runtime.hpp"

namespace trireme::app {
namespace {

// That a text may have before it loses its beginning.
std::int64_t most_tokens(const Arguments& arguments, const model::ModelConfig& model) {
  if (arguments.has("--sequence")) return model.sequence;
  return model.any_length() ? std::numeric_limits<std::int32_t>::max()
                            : model.positions();
}

using Clock = std::chrono::steady_clock;

// Only such results are replaced.
void check_output(const Arguments& arguments) {
  if (!arguments.has("-o")) return;
  const std::string out = arguments.text("-o", "");
  check_result(out, {arguments.text("--choices", "")});
  check_replaced(out, {"{\"line\":"}, "file of answers");
}

ChoiceFile open_choices(const Arguments& arguments, const config::RunConfig& config) {
  const std::string path = arguments.text("--choices", "");
  require(is_there(path), Status::missing_input, "--choices {}: there is no such file",
          path);
  ChoiceRule rule;
  rule.space = !arguments.has("--no-space");
  if (arguments.has("--special-tokens")) rule.special = text::SpecialTokens::add;
  rule.positions = most_tokens(arguments, config.model);
  return read_choices(path, rule, open_text(arguments, config, TextNeed::always));
}

// Tokens that the model reads of the longest text.
std::int64_t longest_text(const std::vector<infer::ScoredText>& texts) {
  std::size_t longest = 0;
  for (const infer::ScoredText& text : texts)
    longest = std::max(longest, text.tokens.size() - 1);
  return static_cast<std::int64_t>(longest);
}

// Says how far it is, every few seconds.
auto progress_of(std::size_t texts) {
  return [texts, last = Clock::now()](std::size_t done) mutable {
    constexpr std::chrono::seconds pause(5);
    if (Clock::now() - last < pause) return;
    last = Clock::now();
    log::info("{} of {} texts", done, texts);
  };
}

// The scores are alike on all ranks.
void check_scores(const ChoiceFile& file, const std::string& path,
                  const std::vector<double>& scores) {
  std::size_t text = 0;
  for (const Question& question : file.questions)
    for (std::size_t choice = 0; choice < question.choices.size(); ++choice) {
      const double score = scores[text++];
      require(std::isfinite(score), Status::bad_content,
              "{}: line {}: the log-likelihood of choice {} is {}: {}", one_line(path),
              question.line, choice, score, infer::why_not_finite);
    }
}

void report(const ChoiceFile& file, const std::vector<Taken>& taken) {
  const std::size_t questions = file.questions.size();
  std::string shares;
  for (std::size_t metric = 0; metric < choice_metrics.size(); ++metric) {
    std::size_t right = 0;
    for (std::size_t i = 0; i < questions; ++i)
      right += taken[i][metric] == file.questions[i].answer ? 1 : 0;
    shares += format("{} {}  ", choice_metrics[metric], share_text(right, questions));
  }
  log::info("{}questions {}", shares, questions);
}

}  // namespace

int evaluate_choices(comm::World& world, const Arguments& arguments,
                     const PlacementRequest& placement, OpenedModel opened) {
  ChoiceFile file;
  comm::MeshShape shape;
  world.agree([&] {
    if (world.rank() == 0) check_output(arguments);
    file = open_choices(arguments, opened.config);
    shape = inference_mesh(world, arguments, opened.config.model);
  });
  const std::int64_t longest = longest_text(file.texts);
  if (file.cut > 0)
    log::info(
        "{} of {} texts are longer than {} tokens and lost the beginning of their "
        "context",
        file.cut, file.texts.size(), most_tokens(arguments, opened.config.model));
  const kernels::Runtime runtime(0, world.ranks_on_node());
  const launch::ComputeDevice on = device_of(world, arguments);
  comm::Mesh mesh(world, shape, {}, on.device, on.transport);
  comm::Group& pipeline = mesh.group(comm::Axis::pipeline);
  const ModelUse use{longest,
                     [&](const infer::LoadedModel& meta) {
                       return infer::scoring_bytes(meta, pipeline, file.texts);
                     },
                     "batches of texts"};
  const auto model =
      load_model(world, arguments, placement, opened, mesh, on.device, use);
  if (model == nullptr) return 0;
  const std::vector<double> scores =
      infer::score_texts(*model, pipeline, file.texts, progress_of(file.texts.size()));
  check_scores(file, arguments.text("--choices", ""), scores);
  const std::vector<Taken> taken = take_all(file, scores);
  world.agree([&] {
    if (world.rank() == 0 && arguments.has("-o"))
      io::write_text_atomically(arguments.text("-o", ""),
                                verdict_lines(file, scores, taken));
  });
  report(file, taken);
  return 0;
}

}  // namespace trireme::app
