// `trireme inspect DECK`: shares of a blend, and a row of a step with its borders.
// SPDX-License-Identifier: Apache-2.0
#include "app/inspect_deck.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "app/deck_arguments.hpp"
#include "base/log.hpp"
#include "base/output.hpp"
#include "base/terminal.hpp"
#include "base/text.hpp"
#include "base/text_table.hpp"
#include "config/deck_table.hpp"
#include "config/start_model.hpp"
#include "data/text_source.hpp"
#include "engine/documents.hpp"
#include "io/deck_toml.hpp"
#include "io/deck_value.hpp"
#include "text/tokenizer.hpp"
#include "train/sample_row.hpp"
#include "train/sample_turns.hpp"

namespace trireme::app {
namespace {

constexpr std::string_view plain = "\x1b[0m", dim = "\x1b[2m";
constexpr std::string_view of_documents[] = {"\x1b[36m", "\x1b[32m", "\x1b[33m",
                                             "\x1b[35m"};

class Words {
 public:
  Words(const config::RunConfig& config, const std::string& tokenizer) {
    if (config.data.kind == io::SourceKind::bytes)
      bytes_ = true;
    else if (!tokenizer.empty())
      tokenizer_.emplace(tokenizer);
  }
  // One line of text, or of ids.
  std::string of(const std::vector<std::int32_t>& ids) const {
    std::string text;
    for (const std::int32_t id : ids) {
      if (bytes_ && id < io::end_of_text)
        text += static_cast<char>(id);
      else if (bytes_)
        text += "<end>";
      else if (!tokenizer_)
        text += (text.empty() ? "" : " ") + std::to_string(id);
    }
    if (tokenizer_) text = tokenizer_->decode(ids, false);
    return one_line(valid_utf8(text));
  }

 private:
  bool bytes_ = false;
  std::optional<text::Tokenizer> tokenizer_;
};

// How much of the run each part of a blend is.
void print_shares(const config::RunConfig& config, const io::Blend& blend) {
  const config::BatchStage stage = config.stage_of(config.run.steps);
  const double sequences =
      static_cast<double>(stage.sequence_of(config.run.steps) + stage.global);
  std::vector<TextRow> rows = {{"part", "share", "samples", "epochs"}};
  for (std::size_t i = 0; i < blend.weights.size(); ++i)
    rows.push_back(
        {std::string(name_of(config.data.blend[i].kind)) + " " +
             one_line(config.data.blend[i].path),
         fixed(100 * blend.weights[i], 2) + " %", std::to_string(blend.samples[i]),
         fixed(blend.weights[i] * sequences / static_cast<double>(blend.samples[i]), 2)});
  std::string table = text_table(rows, 1, 2);
  table.pop_back();
  log::line(table);
}

// Runs of tokens of one document that are targets, or are not.
void print_row(const train::SampleRow& row, const Words& words) {
  const bool colours = terminal::has_colours();
  const auto tokens = row.tokens();
  const auto start_of = [&](std::size_t t) {
    return row.starts().empty() ? 0 : row.starts()[t];
  };
  std::string text;
  std::size_t document = 0;
  for (std::size_t begin = 0; begin < tokens.size();) {
    std::size_t end = begin + 1;
    while (end < tokens.size() && start_of(end) == start_of(begin) &&
           row.is_target(end) == row.is_target(begin) &&
           (tokens[end] < 0) == (tokens[begin] < 0))
      ++end;
    if (begin == 0 || start_of(begin) != start_of(begin - 1)) {
      text += (begin > 0 ? "\n" : "") + format("[{}] ", begin);
      ++document;
    }
    const std::string shown =
        tokens[begin] < 0 ? format("{} places of padding", end - begin)
                          : words.of({tokens.begin() + static_cast<std::ptrdiff_t>(begin),
                                      tokens.begin() + static_cast<std::ptrdiff_t>(end)});
    if (colours)
      text += format("{}{}{}",
                     row.is_target(begin)
                         ? of_documents[(document - 1) % std::size(of_documents)]
                         : dim,
                     shown, plain);
    else
      text += row.is_target(begin) ? shown : "{" + shown + "}";
    begin = end;
  }
  output::write(text + "\n");
}

}  // namespace

bool is_deck(const std::string& path) { return path.ends_with(".toml"); }

void print_deck_value(const Arguments& arguments, const std::vector<std::string>& words) {
  for (const char* option : {"--tokenizer", "--step", "--row", "--ranks"})
    require(!arguments.has(option), Status::command_line,
            "--value prints one value of the deck: leave out {}", option);
  const std::string name = arguments.text("--value", "");
  const auto table = config::deck_table();
  const bool known = std::any_of(table.begin(), table.end(), [&](const io::DeckKey& key) {
    return io::full_name(key) == name;
  });
  require(known, Status::command_line,
          "--value {}: {} (trireme help deck lists all keys)", io::shorten(name, 80),
          io::unknown_key_text(name, table));
  const io::Deck deck =
      config::load_with_model(words.front(), std::span(words).subspan(1), read_model);
  deck.require_sound();
  output::write(deck.value_text(name) + "\n");
}

void inspect_deck(const Arguments& arguments, int ranks) {
  const config::RunConfig config = load_deck(arguments.words(), ranks).config;
  const auto source = data::open_source(config.data);
  const Words words(config, arguments.text("--tokenizer", config.data.tokenizer));
  const std::int64_t step = arguments.integer("--step", 1, 1, config.run.steps);
  const config::BatchStage stage = config.stage_of(step);
  const std::int64_t number = arguments.integer("--row", 0, 0, stage.global - 1);
  log::info("{}", source->describe());
  if (source->blend() != nullptr) print_shares(config, *source->blend());
  train::SampleOrder order(*source, config.run.seed);
  const train::SamplePlace place = order.at(stage.sequence_of(step) + number);
  train::SampleRow row(*source, config.model.sequence,
                       engine::document_rule(config.data, *source, config.model.window,
                                             !config.batch.sequence_ramp.empty()));
  row.read(place.sample);
  std::int64_t targets = 0;
  for (std::size_t t = 1; t < row.tokens().size(); ++t) targets += row.is_target(t);
  log::info(
      "step {}, row {} of {}: sample {} of epoch {}, {} targets in {} places{}", step,
      number, stage.global, place.sample, place.epoch + 1, targets, config.model.sequence,
      terminal::has_colours() ? "; a document has a colour, what is no target is dim"
                              : "; a line is a document, {} holds what is no target");
  for (const io::SamplePart& part : source->parts(place.sample))
    log::info("  {}: tokens {} to {}", part.file, part.begin,
              part.begin + part.tokens - 1);
  print_row(row, words);
}

}  // namespace trireme::app
