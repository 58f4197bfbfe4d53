// Every rule that involves more than one deck key.
// SPDX-License-Identifier: Apache-2.0
#include "train/run_rules.hpp"

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <string_view>

#include "base/split.hpp"

namespace trireme::train {

namespace {

using Keys = std::initializer_list<std::string_view>;

class Rules {
 public:
  Rules(const io::Deck& deck, const RunConfig& config, int ranks)
      : deck_(deck), config_(config), ranks_(ranks) {}

  BrokenRules check() {
    broken_.problems = not_available_yet(deck_);
    broken_.only_ranks = broken_.problems.empty();
    run_rules();
    model_rules();
    tensor_rules();
    batch_rules();
    size_rules();
    data_rules();
    precision_rules();
    optimizer_rules();
    debug_rules();
    return std::move(broken_);
  }

 private:
  // One rule: unless holds() is true, text() becomes a problem. Not judged when one of
  // `keys` is wrong in itself. ranks_would_do: another number of ranks satisfies it.
  template <class Holds, class Text>
  void rule(Keys keys, Holds holds, Text text, bool ranks_would_do = false) {
    for (const auto key : keys)
      if (!deck_.sound(key)) return;
    if (holds()) return;
    broken_.problems.push_back({place(keys), "", "", text()});
    broken_.only_ranks = broken_.only_ranks && ranks_would_do;
  }

  // Where the first key that was given stands.
  std::string place(Keys keys) const {
    for (const auto key : keys)
      if (deck_.given(key)) return deck_.where(key);
    return "default";
  }

  // "model.heads = 5"
  std::string show(std::string_view key) const {
    return std::string(key) + " = " + deck_.value_text(key);
  }
  // The same where a default of 0 was resolved: "model.kv_heads = 0 (that is, 5)".
  std::string show(std::string_view key, std::int64_t resolved) const {
    const std::string text = std::to_string(resolved);
    return show(key) + (deck_.value_text(key) == text ? "" : " (that is, " + text + ")");
  }

  void run_rules();
  void model_rules();
  void tensor_rules();
  void batch_rules();
  void size_rules();
  void data_rules();
  void precision_rules();
  void optimizer_rules();
  void debug_rules();
  void fault_rule();

  const io::Deck& deck_;
  const RunConfig& config_;
  int ranks_;
  BrokenRules broken_;
};

// "a|b" holds "b".
bool among(std::string_view choices, std::string_view value) {
  while (true) {
    const auto bar = choices.find('|');
    if (choices.substr(0, bar) == value) return true;
    if (bar == std::string_view::npos) return false;
    choices.remove_prefix(bar + 1);
  }
}

std::string ranks_text(std::int64_t ranks) {
  return std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks");
}

std::int64_t next_multiple(std::int64_t value, std::int64_t of) {
  return divide_up(value, of) * of;
}

// The largest divisor of `value` that is at most `limit`; both at least 1.
std::int64_t divisor_below(std::int64_t value, std::int64_t limit) {
  std::int64_t best = 1;
  for (std::int64_t d = 1; d * d <= value; ++d) {
    if (value % d != 0) continue;
    if (d <= limit) best = std::max(best, d);
    if (value / d <= limit) best = std::max(best, value / d);
  }
  return best;
}

void Rules::run_rules() {
  const std::string& name = config_.run.name;
  rule(
      {"run.name", "run.directory"},
      [&] {
        return !name.empty() &&
               (!deck_.text("run.directory").empty() ||
                (name.find('/') == std::string::npos && name != "." && name != ".."));
      },
      [&] {
        return show("run.name") + " cannot name a folder under runs/, where " +
               show("run.directory") +
               " puts the run: write a name without '/', or give run.directory";
      });
  rule(
      {"checkpoint.resume"}, [&] { return !config_.checkpoint.resume.empty(); },
      [&] {
        return show("checkpoint.resume") +
               " says nothing: write \"auto\", \"never\" or the path of a checkpoint";
      });
}

void Rules::model_rules() {
  const auto& m = config_.model;
  const bool llama = m.architecture == model::Architecture::llama;
  rule(
      {"model.hidden", "model.heads"}, [&] { return m.hidden % m.heads == 0; },
      [&] {
        return show("model.hidden") + " must be divisible by " + show("model.heads") +
               format(": write model.hidden = {} or model.heads = {}",
                      next_multiple(m.hidden, m.heads), divisor_below(m.hidden, m.heads));
      });
  rule(
      {"model.heads", "model.kv_heads"}, [&] { return m.heads % m.kv_heads == 0; },
      [&] {
        return show("model.heads") + " must be divisible by " + show("model.kv_heads") +
               format(": write model.kv_heads = {}", divisor_below(m.heads, m.kv_heads));
      });
  rule(
      {"model.hidden", "model.heads", "model.architecture"},
      [&] { return !llama || m.hidden % m.heads != 0 || m.head_width() % 2 == 0; },
      [&] {
        return show("model.hidden") + " and " + show("model.heads") +
               format(
                   " make heads of width {}, and rotary positions need an even width: "
                   "write model.hidden = {}",
                   m.head_width(), (m.head_width() + 1) * m.heads);
      });
  rule(
      {"model.architecture", "model.kv_heads", "model.heads"},
      [&] { return llama || m.kv_heads == m.heads; },
      [&] {
        return show("model.architecture") + " has no grouped attention, but " +
               show("model.kv_heads") + " differs from " + show("model.heads") +
               ": write model.kv_heads = 0";
      });
  // Only a value that differs: a deck with every default written out must stay legal.
  rule(
      {"model.rope_theta", "model.architecture"},
      [&] { return llama || m.rope_theta == model::ModelConfig{}.rope_theta; },
      [&] {
        return show("model.rope_theta") + " has no meaning with " +
               show("model.architecture") + ", whose positions are learned: remove it";
      });
  rule(
      {"model.vocabulary", "data.source"},
      [&] { return m.vocabulary > 0 || config_.data.kind == "bytes"; },
      [&] {
        return "model.vocabulary must be given with " + show("data.source") +
               ": only bytes have a default, 257";
      });
  rule(
      {"model.vocabulary", "data.source"},
      [&] { return config_.data.kind != "bytes" || m.vocabulary > io::end_of_text; },
      [&] {
        return show("model.vocabulary") + " is too small for " + show("data.source") +
               ", which has 256 bytes and an end of text: write model.vocabulary = 257";
      });
}

void Rules::tensor_rules() {
  const auto& m = config_.model;
  const std::int64_t tensor = config_.parallel.mesh.tensor;
  rule(
      {"model.heads", "parallel.tensor"}, [&] { return m.heads % tensor == 0; },
      [&] {
        return show("model.heads") + " must be divisible by " + show("parallel.tensor") +
               format(": write model.heads = {} or parallel.tensor = {}",
                      next_multiple(m.heads, tensor), divisor_below(m.heads, tensor));
      });
  rule(
      {"parallel.tensor", "model.feed_forward", "model.hidden", "model.architecture"},
      [&] { return m.feed_forward >= tensor; },
      [&] {
        return show("model.feed_forward", m.feed_forward) + " is less than " +
               show("parallel.tensor") +
               format(": write parallel.tensor = {} or less", m.feed_forward);
      });
  rule(
      {"parallel.tensor", "model.vocabulary", "data.source"},
      [&] { return m.vocabulary == 0 || m.vocabulary >= tensor; },
      [&] {
        return show("model.vocabulary", m.vocabulary) + " is less than " +
               show("parallel.tensor") +
               format(": write parallel.tensor = {} or less", m.vocabulary);
      });
  rule(
      {"batch.micro", "model.sequence", "parallel.tensor", "parallel.sequence"},
      [&] {
        return !config_.parallel.sequence ||
               config_.batch.micro * m.sequence % tensor == 0;
      },
      [&] {
        return show("batch.micro") + " x " + show("model.sequence") +
               " must be divisible by " + show("parallel.tensor") + " with " +
               show("parallel.sequence") +
               format(": write model.sequence = {} or parallel.sequence = false",
                      next_multiple(m.sequence, tensor));
      });
}

void Rules::batch_rules() {
  const auto& batch = config_.batch;
  const auto& mesh = config_.parallel.mesh;
  const std::int64_t axes = std::int64_t{1} * mesh.tensor * mesh.context * mesh.pipeline;
  rule(
      {"parallel.tensor", "parallel.context", "parallel.pipeline"},
      [&] { return ranks_ % axes == 0; },
      [&] {
        const std::int64_t below = ranks_ / axes * axes;
        return show("parallel.tensor") + " x " + show("parallel.context") + " x " +
               show("parallel.pipeline") +
               format(" = {} must divide the number of ranks, {}: start {}{}", axes,
                      ranks_, below > 0 ? std::to_string(below) + " or " : "",
                      ranks_text(below + axes));
      },
      true);
  rule(
      {"batch.global", "batch.micro"}, [&] { return batch.global % batch.micro == 0; },
      [&] {
        return show("batch.global") + " must be divisible by " + show("batch.micro") +
               format(": write batch.global = {} or batch.micro = {}",
                      next_multiple(batch.global, batch.micro),
                      divisor_below(batch.global, batch.micro));
      });
  rule(
      {"batch.global", "batch.micro", "parallel.tensor", "parallel.context",
       "parallel.pipeline"},
      [&] {
        return mesh.data == 0 || batch.global % batch.micro != 0 ||
               batch.global / batch.micro % mesh.data == 0;
      },
      [&] {
        const std::int64_t rows = batch.global / batch.micro;
        return show("batch.global") + " must be divisible by " + show("batch.micro") +
               format(" x {} data ranks ({} / ", mesh.data, ranks_text(ranks_)) +
               show("parallel.tensor") +
               format("): write batch.global = {}, or start {}",
                      next_multiple(batch.global, batch.micro * mesh.data),
                      ranks_text(divisor_below(rows, mesh.data) * axes));
      },
      true);
}

// Sizes that would overflow later arithmetic. In doubles: limits need no last digit.
void Rules::size_rules() {
  constexpr double most_tokens_of_a_forward = 0x1p31, most_tokens = 0x1p62,
                   most_weights = 0x1p50;
  const auto& m = config_.model;
  const auto real = [](std::int64_t value) { return static_cast<double>(value); };
  const double forward = real(config_.batch.micro) * real(m.sequence);
  rule(
      {"batch.micro", "model.sequence"},
      [&] { return forward < most_tokens_of_a_forward; },
      [&] {
        return show("batch.micro") + " x " + show("model.sequence") +
               " tokens in one forward is too many: write less than 2147483648 in all";
      });
  rule(
      {"run.steps", "batch.global", "model.sequence"},
      [&] {
        return real(config_.run.steps) * real(config_.batch.global) * real(m.sequence) <
               most_tokens;
      },
      [&] {
        return show("run.steps") + " x " + show("batch.global") + " x " +
               show("model.sequence") +
               " tokens cannot be counted: write less than 2^62 in all";
      });
  rule(
      {"model.layers", "model.hidden", "model.feed_forward", "model.vocabulary",
       "model.architecture"},
      [&] {
        const double block = 4 * real(m.hidden) + 3 * real(m.feed_forward),
                     ends = 2 * real(m.vocabulary) + real(m.sequence);
        return real(m.hidden) * (real(m.layers) * block + ends) < most_weights;
      },
      [&] {
        return show("model.layers") + ", " + show("model.hidden") + ", " +
               show("model.feed_forward", m.feed_forward) + " and " +
               show("model.vocabulary", m.vocabulary) +
               " make more than 2^50 weights: write smaller ones";
      });
}

void Rules::data_rules() {
  const bool synthetic = config_.data.kind == "synthetic";
  const bool files = config_.data.kind == "bytes" || config_.data.kind == "tokens";
  rule(
      {"data.paths", "data.source"},
      [&] { return !files || !config_.data.paths.empty(); },
      [&] {
        return show("data.source") +
               " needs files: write data.paths = [\"FILE\"], or data.source = "
               "\"synthetic\"";
      });
  for (const auto* key : {"data.paths", "data.validation_paths"})
    rule(
        {key, "data.source"}, [&] { return !synthetic || deck_.value_text(key) == "[]"; },
        [&] {
          return show(key) + " has no meaning with " + show("data.source") +
                 ": remove it, or write data.source = \"bytes\"";
        });
  rule(
      {"metrics.validate_every", "data.validation_paths", "data.source"},
      [&] {
        return config_.metrics.validate_every == 0 || !files ||
               !config_.validation.paths.empty();
      },
      [&] {
        return show("metrics.validate_every") + " needs files, but " +
               show("data.validation_paths") +
               ": write data.validation_paths = [\"FILE\"], or metrics.validate_every = "
               "0";
      });
}

void Rules::precision_rules() {
  const std::string_view accumulate = name_of(config_.precision.accumulate);
  const bool proof = config_.precision.compute == DType::f64;
  const bool known = among("fp64|fp32|bf16", deck_.text("precision.compute"));
  for (const auto* key :
       {"precision.gradient_reduce", "precision.master", "precision.moments"})
    rule(
        {key, "precision.compute"},
        [&] {
          const std::string& type = deck_.text(key);
          return type == "auto" || type == accumulate || !known;
        },
        [&] {
          return show(key) + " with " + show("precision.compute") +
                 (proof ? " would spoil the proof" : " is not available yet") +
                 format(": write {} = \"auto\", which is {} here", key, accumulate);
        });
}

void Rules::optimizer_rules() {
  using optim::ScheduleKind;
  const auto& schedule = config_.optimizer.schedule;
  rule(
      {"optimizer.betas", "optimizer.name"},
      [&] { return deck_.reals("optimizer.betas").size() == 2; },
      [&] {
        return show("optimizer.betas") + " must have two elements: write [0.9, 0.95]";
      });
  rule(
      {"optimizer.schedule.decay", "optimizer.schedule.name"},
      [&] { return schedule.kind != ScheduleKind::wsd || schedule.decay > 0; },
      [&] {
        return show("optimizer.schedule.decay") + " leaves " +
               show("optimizer.schedule.name") + " without its decay: write " +
               format("optimizer.schedule.decay = {}",
                      std::max<std::int64_t>(1, config_.run.steps / 5));
      });
  rule(
      {"optimizer.schedule.decay", "optimizer.schedule.name"},
      [&] { return schedule.kind != ScheduleKind::constant || schedule.decay == 0; },
      [&] {
        return show("optimizer.schedule.decay") + " has no meaning with " +
               show("optimizer.schedule.name") +
               ": remove it, or write optimizer.schedule.name = \"wsd\"";
      });
  rule(
      {"optimizer.schedule.warmup", "optimizer.schedule.decay", "run.steps"},
      [&] { return schedule.warmup + schedule.decay <= config_.run.steps; },
      [&] {
        return show("optimizer.schedule.warmup") + " and " +
               show("optimizer.schedule.decay") + " together exceed " +
               show("run.steps") +
               format(": write run.steps = {} or shorter ones",
                      schedule.warmup + schedule.decay);
      });
}

void Rules::debug_rules() {
  rule(
      {"debug.dump_gradients", "run.steps"},
      [&] {
        const auto& steps = config_.debug.dump_gradients;
        return std::all_of(steps.begin(), steps.end(),
                           [&](auto step) { return step <= config_.run.steps; });
      },
      [&] {
        return show("debug.dump_gradients") + " names a step after " + show("run.steps") +
               ", the last: remove it";
      });
  if (!config_.debug.fault.empty()) fault_rule();
}

void Rules::fault_rule() {
  // 1. kind@step@rank
  const std::string& fault = config_.debug.fault;
  const auto first = fault.find('@'), second = fault.rfind('@');
  std::int64_t step = -1, rank = -1;
  const auto number = [&](std::size_t begin, std::size_t end, std::int64_t& out) {
    const auto parsed = std::from_chars(fault.data() + begin, fault.data() + end, out);
    return parsed.ec == std::errc{} && parsed.ptr == fault.data() + end;
  };
  const bool well_formed = first != second && second != std::string::npos &&
                           among("exit|throw|kill|hang|nan", fault.substr(0, first)) &&
                           number(first + 1, second, step) &&
                           number(second + 1, fault.size(), rank) && step >= 1 &&
                           rank >= 0;
  rule(
      {"debug.fault"}, [&] { return well_formed; },
      [&] {
        return show("debug.fault") +
               " must be kind@step@rank with kind exit, throw, kill, hang or nan: write "
               "\"kill@3@0\" to kill rank 0 in step 3";
      });
  if (!well_formed) return;
  // 2. A step and a rank that exist.
  rule(
      {"debug.fault", "run.steps"}, [&] { return step <= config_.run.steps; },
      [&] {
        return show("debug.fault") + " names a step after " + show("run.steps") +
               ", the last: write an earlier step";
      });
  rule(
      {"debug.fault"}, [&] { return rank < ranks_; },
      [&] {
        return show("debug.fault") +
               format(
                   " names rank {}, but the number of ranks is {}: write a rank below {}",
                   rank, ranks_, ranks_);
      },
      true);
}

}  // namespace

BrokenRules check_rules(const io::Deck& deck, const RunConfig& config, int ranks) {
  return Rules(deck, config, ranks).check();
}

}  // namespace trireme::train
