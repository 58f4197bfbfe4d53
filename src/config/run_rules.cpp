// Rules about the run, the model, the batch, data, precision and the optimizer.
// SPDX-License-Identifier: Apache-2.0
#include <charconv>

#include "base/number.hpp"
#include "config/rules.hpp"
#include "model/stage.hpp"
#include "optim/parameter_groups.hpp"
#include "optim/parameter_store.hpp"

namespace trireme::config {
namespace {

// Numbers of data ranks as numbers of ranks.
std::vector<std::string> ranks_of(const std::vector<std::string>& data,
                                  std::int64_t axes) {
  std::vector<std::string> all;
  for (const std::string& ranks : data)
    all.push_back(std::to_string(parse_number<std::int64_t>(ranks).value() * axes));
  return all;
}

// What is wrong with a group for this model, as a sentence; empty if nothing is.
std::string misfit_of(const optim::OptimizerConfig& config,
                      const model::ModelConfig& model) {
  comm::Mesh alone = comm::Mesh::meta({}, 0);
  const parallel::TensorRegion region(alone.group(comm::Axis::tensor), false);
  model::StageConfig whole{.model = model, .blocks = {0, model.layers}};
  model::Stage stage(whole, region, Device::meta());
  const std::string& pattern = config.groups.front().pattern;
  bool fits = false;
  try {
    for (Param* param : stage.parameters()) {
      optim::apply_groups(config, *param);
      for (const Slab& slab : param->slabs) {
        fits = fits || optim::matches(pattern, slab.tensor);
      }
    }
  } catch (const Error& error) {
    return error.what();
  }
  if (fits) return {};
  return "the pattern \"" + pattern + "\" fits no tensor: the first are called " +
         stage.parameters()[0]->slabs[0].tensor + " and " +
         stage.parameters()[1]->slabs[0].tensor;
}

}  // namespace

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
      {"comm.backend", "run.device"},
      [&] { return config_.run.backend != "nccl" || config_.run.device != "cpu"; },
      [&] {
        return show("comm.backend") + " carries messages between GPUs, but " +
               show("run.device") +
               ": write run.device = \"cuda\" or comm.backend = \"auto\"";
      });
  rule(
      {"checkpoint.resume"}, [&] { return !config_.checkpoint.resume.empty(); },
      [&] {
        return show("checkpoint.resume") +
               " says nothing: write \"auto\", \"never\" or the path of a checkpoint";
      });
  rule(
      {"checkpoint.keep_every", "checkpoint.keep"},
      [&] { return config_.checkpoint.keep_every == 0 || config_.checkpoint.keep > 0; },
      [&] {
        return show("checkpoint.keep_every") + " has no meaning with " +
               show("checkpoint.keep") + ", which keeps all: drop one of them";
      });
}

void Rules::model_rules() {
  const auto& m = config_.model;
  const bool llama = m.is_llama_like();
  rule(
      {"model.hidden", "model.heads"}, [&] { return m.hidden % m.heads == 0; },
      [&] {
        return show("model.hidden") + " must be divisible by " + show("model.heads") +
               advise({{"model.hidden", multiples_from(m.hidden, m.heads)},
                       {"model.heads", divisors_up_to(m.hidden, m.heads)}});
      });
  rule(
      {"model.heads", "model.kv_heads"}, [&] { return m.heads % m.kv_heads == 0; },
      [&] {
        return show("model.heads") + " must be divisible by " + show("model.kv_heads") +
               advise({{"model.kv_heads", divisors_up_to(m.heads, m.kv_heads)}});
      });
  rule(
      {"model.hidden", "model.heads", "model.architecture"},
      [&] { return !llama || m.hidden % m.heads != 0 || m.head_width() % 2 == 0; },
      [&] {
        return show("model.hidden") + " and " + show("model.heads") +
               format(" make heads of width {}, and rotary positions need an even width",
                      m.head_width()) +
               advise({{"model.hidden", multiples_from(m.hidden, 2 * m.heads)},
                       {"model.heads", divisors_up_to(m.hidden, m.heads)}});
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
               ", which has 256 bytes and an end of text" +
               advise({{"model.vocabulary",
                        {std::to_string(io::end_of_text + 1),
                         std::to_string(config_.parallel.mesh.tensor)}}});
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
        std::vector<std::string> fewer;
        for (std::int64_t ranks = below; ranks > 0 && fewer.size() < 32; ranks -= axes)
          fewer.push_back(std::to_string(ranks));
        return show("parallel.tensor") + " x " + show("parallel.context") + " x " +
               show("parallel.pipeline") +
               format(" = {} must divide the number of ranks, {}", axes, ranks_) +
               advise({{"", fewer}, {"", multiples_from(below + axes, axes)}});
      },
      true);
  rule(
      {"batch.global", "batch.micro"}, [&] { return batch.global % batch.micro == 0; },
      [&] {
        return show("batch.global") + " must be divisible by " + show("batch.micro") +
               advise({{"batch.global", multiples_from(batch.global, batch.micro)},
                       {"batch.micro", divisors_up_to(batch.global, batch.micro)}});
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
               show("parallel.tensor") + ")" +
               advise({{"batch.global",
                        multiples_from(batch.global, batch.micro * mesh.data)},
                       {"", ranks_of(divisors_up_to(rows, mesh.data), axes)}});
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

// Of an optimizer whose rule is about whole matrices.
void Rules::matrix_rules() {
  const bool matrices = config_.optimizer.for_matrices();
  rule(
      {"parallel.offload", "optimizer.name"},
      [&] { return !matrices || config_.parallel.offload == optim::Offload::none; },
      [&] {
        return show("parallel.offload") + " cannot be with " + show("optimizer.name") +
               ", which multiplies matrices where the weights are computed with: write "
               "parallel.offload = \"none\", or optimizer.name = \"adamw\"";
      });
  rule(
      {"precision.recipe", "precision.master", "precision.moments", "optimizer.name"},
      [&] {
        optim::StoreConfig store;
        store.recipe = config_.precision.recipe;
        return !matrices || !store.narrow_state();
      },
      [&] {
        return show("optimizer.name") +
               " needs master weights, sums of gradients and "
               "moments in the type of sums, which " +
               show("precision.recipe") +
               ", or a key of precision, has in fewer bits: write precision.recipe = "
               "\"bf16\", or optimizer.name = \"adamw\"";
      });
}

void Rules::optimizer_rules() {
  const auto& schedule = config_.optimizer.schedule;
  rule(
      {"optimizer.betas", "optimizer.name"},
      [&] { return deck_.reals("optimizer.betas").size() == 2; },
      [&] {
        return show("optimizer.betas") + " must have two elements: write [0.9, 0.95]";
      });
  rule(
      {"optimizer.schedule.decay", "optimizer.schedule.name"},
      [&] { return schedule.kind != optim::DecayStyle::wsd || schedule.decay > 0; },
      [&] {
        return show("optimizer.schedule.decay") + " leaves " +
               show("optimizer.schedule.name") + " without its decay" +
               advise({{"optimizer.schedule.decay",
                        numbers(std::max<std::int64_t>(1, config_.run.steps / 5), 1)},
                       {"optimizer.schedule.name", {"\"constant\""}}});
      });
  rule(
      {"optimizer.schedule.decay", "optimizer.schedule.name"},
      [&] { return schedule.kind != optim::DecayStyle::constant || schedule.decay == 0; },
      [&] {
        return show("optimizer.schedule.decay") + " has no meaning with " +
               show("optimizer.schedule.name") +
               advise({{"optimizer.schedule.decay", {"0"}},
                       {"optimizer.schedule.name", {"\"wsd\""}}});
      });
  rule(
      {"optimizer.schedule.warmup", "optimizer.schedule.decay", "run.steps"},
      [&] { return schedule.warmup + schedule.decay <= config_.run.steps; },
      [&] {
        return show("optimizer.schedule.warmup") + " and " +
               show("optimizer.schedule.decay") + " together exceed " +
               show("run.steps") +
               advise({{"run.steps", {std::to_string(schedule.warmup + schedule.decay)}},
                       {"optimizer.schedule.warmup",
                        {std::to_string(config_.run.steps - schedule.decay)}}});
      });
}

// Each group is well-formed, fits some tensor of the model, and not part of what is
// stored together.
void Rules::group_rules() {
  const auto texts = deck_.texts("optimizer.groups");
  if (quiet_ || texts.empty() || !deck_.sound("optimizer.groups")) return;
  std::string wrong;
  optim::OptimizerConfig config;
  for (const std::string& text : texts) {
    rule(
        {"optimizer.groups"},
        [&] {
          try {
            config.groups = {optim::parse_group(text)};
          } catch (const Error& error) {
            wrong = error.what();
            config.groups.clear();
          }
          return !config.groups.empty();
        },
        [&] { return "optimizer.groups: " + wrong; });
    if (config.groups.empty() || !broken_.problems.empty()) continue;
    rule(
        {"optimizer.groups"},
        [&] {
          wrong = misfit_of(config, config_.model);
          return wrong.empty();
        },
        [&] { return "optimizer.groups: " + wrong; });
  }
}

void Rules::debug_rules() {
  const auto steps_rule = [&](std::string_view key,
                              const std::vector<std::int64_t>& steps) {
    rule(
        {key, "run.steps"},
        [&] {
          return std::all_of(steps.begin(), steps.end(),
                             [&](auto step) { return step <= config_.run.steps; });
        },
        [&] {
          return show(key) + " names a step after " + show("run.steps") +
                 ", the last: remove it";
        });
  };
  steps_rule("debug.dump_gradients", config_.debug.dump_gradients);
  steps_rule("debug.dump_samples", config_.debug.dump_samples);
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
  const bool well_formed =
      first != second && second != std::string::npos &&
      among(
          "exit|throw|kill|hang|stop|slow_copy|nan|nan_loss|nan_gradient|spike|"
          "flip_sign|flip_exponent|flip_mantissa|flip_moment",
          fault.substr(0, first)) &&
      number(first + 1, second, step) && number(second + 1, fault.size(), rank) &&
      step >= 1 && rank >= 0;
  rule(
      {"debug.fault"}, [&] { return well_formed; },
      [&] {
        return show("debug.fault") +
               " must be kind@step@rank with kind exit, throw, kill, hang, stop, "
               "slow_copy, nan, "
               "nan_loss, nan_gradient, spike, flip_sign, flip_exponent, flip_mantissa "
               "or "
               "flip_moment: write "
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
      {"debug.fault", "optimizer.name", "optimizer.betas"},
      [&] {
        return !fault.starts_with("flip_moment") || config_.optimizer.keeps_state();
      },
      [&] {
        return show("debug.fault") + " changes a moment, but " + show("optimizer.name") +
               " with " + show("optimizer.betas") +
               " keeps none: write debug.fault = \"flip_mantissa@" +
               std::to_string(step) + "@" + std::to_string(rank) + "\"";
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

BrokenRules check_rules(const io::Deck& deck, const RunConfig& config, int ranks,
                        int ranks_on_node) {
  return Rules(deck, config, ranks, ranks_on_node).check();
}

}  // namespace trireme::config
