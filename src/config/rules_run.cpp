// Rules about the run, its data, its batches, and the size of it all.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include "base/counted.hpp"
#include "base/number.hpp"
#include "config/rules.hpp"
#include "io/trackers.hpp"

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

auto is_once_known(const std::vector<std::string>& trackers) {
  return [&trackers](const std::string& name) {
    return std::count(trackers.begin(), trackers.end(), name) == 1 &&
           std::find(std::begin(io::tracker_names), std::end(io::tracker_names), name) !=
               std::end(io::tracker_names);
  };
}

}  // namespace

void RunRules::run_rules() {
  const std::string& name = config_.run.name;
  rule(
      {key::run.name, key::run.directory},
      [&] {
        return !deck_[key::run.directory].empty() ||
               (name.find('/') == std::string::npos && name != "." && name != "..");
      },
      key::run.name, " cannot name a folder under runs/, where ", key::run.directory,
      " puts the run: write a name without '/', or give run.directory");
  rule({key::run.name}, !name.empty(), key::run.name,
       " is no name for logs and plots: write run.name = \"run\"");
  rule({key::comm.backend, key::run.device},
       config_.run.backend != comm::Backend::nccl ||
           config_.run.device != DeviceChoice::cpu,
       key::comm.backend, " carries messages between GPUs, but ", key::run.device,
       ": write run.device = \"cuda\" or comm.backend = \"auto\"");
  rule({key::run.gemm_search, key::model.architecture},
       !config_.run.gemm_search || !config_.model.has_experts(), key::run.gemm_search,
       " with ", key::model.architecture,
       ": products of experts have other sizes in each step, and each would be timed "
       "anew: write run.gemm_search = false");
  rule({key::attention.library, key::run.device},
       config_.run.attention != AttentionChoice::cudnn ||
           config_.run.device != DeviceChoice::cpu,
       key::attention.library, " computes on GPUs, but ", key::run.device,
       ": write run.device = \"cuda\" or attention.library = \"auto\"");
  rule({key::attention.library, key::model.window},
       config_.run.attention != AttentionChoice::cudnn || config_.model.window == 0,
       key::attention.library, " has no windows here, but ", key::model.window,
       ": write attention.library = \"auto\"");
  meaningless(key::attention.deterministic, key::attention.library,
              config_.run.attention == AttentionChoice::own,
              ", whose kernels add in a fixed order in any case: drop one of them");
  rule({key::checkpoint.resume}, !config_.checkpoint.resume.empty(),
       key::checkpoint.resume,
       " says nothing: write \"auto\", \"never\" or the path of a checkpoint");
  meaningless(key::checkpoint.keep_every, key::checkpoint.keep,
              config_.checkpoint.keep == 0, ", which keeps all: drop one of them");
  best_rules();
  meaningless(key::checkpoint.partner_directory, key::checkpoint.partner,
              config_.checkpoint.partner == 0,
              ", which makes no copies: write checkpoint.partner = 10, or remove it");
  rule({key::checkpoint.partner_directory},
       config_.checkpoint.partner_directory.starts_with('/') ||
           config_.checkpoint.partner_directory.starts_with('$'),
       key::checkpoint.partner_directory,
       " has to begin with '/' or, for a variable of each node, with '$': write "
       "\"/dev/shm\"");
  const std::vector<std::string>& trackers = config_.metrics.trackers;
  rule({key::metrics.trackers},
       std::all_of(trackers.begin(), trackers.end(), is_once_known(trackers)),
       key::metrics.trackers,
       " has to name tensorboard, wandb or mlflow, each once at most");
}

// A checkpoint is one of the best by the validation of its own step.
void RunRules::best_rules() {
  const std::int64_t every = config_.checkpoint.every, steps = config_.run.steps,
                     validate = config_.metrics.validate_every;
  meaningless(key::checkpoint.keep_best, key::metrics.validate_every, validate == 0,
              ", by whose losses the best would be known: drop one of them");
  meaningless(key::checkpoint.keep_best, key::checkpoint.every, every == 0,
              ", which makes one at the end only: drop one of them");
  if (config_.checkpoint.keep_best == 0 || every <= 0 || validate <= 0) return;
  rule({key::checkpoint.keep_best, key::checkpoint.every, key::metrics.validate_every,
        key::run.steps},
       every / std::gcd(every, validate) <= steps / validate, key::checkpoint.keep_best,
       " takes checkpoints of steps with a validation, but in ", key::run.steps, " ",
       key::checkpoint.every, " and ", key::metrics.validate_every,
       " meet at the end at most: write checkpoint.every as a multiple of "
       "metrics.validate_every");
}

void RunRules::data_rules() {
  const bool synthetic = config_.data.kind == io::SourceKind::synthetic;
  const bool blend = config_.data.kind == io::SourceKind::blend;
  const bool files = !synthetic;
  rule({key::data.paths, key::data.source},
       !files || blend || !config_.data.paths.empty(), key::data.source,
       " needs files: write data.paths = [\"FILE\"], or data.source = "
       "\"synthetic\"");
  for (const io::DeckKey& paths :
       {KeyRef(key::data.paths), KeyRef(key::data.validation_paths)})
    meaningless(paths, key::data.source, synthetic,
                ": remove it, or write data.source = \"bytes\"");
  meaningless(key::data.validation_source, key::data.source, synthetic,
              ": remove it, or write data.source = \"bytes\"");
  meaningless(key::data.paths, key::data.source, blend,
              ", whose paths stand in data.blend: remove it");
  meaningless(key::data.blend, key::data.source, !blend,
              ": remove it, or write data.source = \"blend\"");
  if (blend) blend_rules();
  const bool packed = config_.data.packing != io::Packing::none;
  meaningless(key::data.packing, key::data.source, synthetic,
              ", which has no documents: remove it");
  meaningless(key::data.end_token, key::data.packing,
              !packed && config_.data.infilling.rate == 0, ": remove it");
  rule({key::data.end_token, key::model.vocabulary},
       config_.data.end_token < config_.model.vocabulary, key::data.end_token,
       " lies outside ", key::model.vocabulary, ": write a token of the vocabulary");
  rule({key::attention.library, key::data.packing},
       !packed || config_.run.attention != AttentionChoice::cudnn, key::attention.library,
       " has no documents here, but ", key::data.packing,
       ": write attention.library = \"auto\"");
  meaningless(key::data.tokenizer, key::data.source,
              synthetic || config_.data.kind == io::SourceKind::bytes,
              ", which has no words to cut: remove it");
  const auto any_is = [&](io::SourceKind kind) {
    const auto of_kind = [&](const io::BlendPart& part) { return part.kind == kind; };
    return config_.data.kind == kind ||
           (config_.validation.kind == kind && !config_.validation.paths.empty()) ||
           (blend &&
            std::any_of(config_.data.blend.begin(), config_.data.blend.end(), of_kind));
  };
  const bool chat = any_is(io::SourceKind::chat) || any_is(io::SourceKind::preference);
  rule({key::data.tokenizer, key::data.source},
       (!chat && !any_is(io::SourceKind::text)) || !config_.data.tokenizer.empty(),
       key::data.source,
       " with text needs a tokenizer: write data.tokenizer = \"tokenizer.json\"");
  for (const io::DeckKey& key :
       {KeyRef(key::data.loss_on), KeyRef(key::data.chat_template),
        KeyRef(key::data.template_date)})
    meaningless(key, key::data.source, !chat,
                ": remove it, or write data.source = \"chat\"");
  rule({key::metrics.validate_every, key::data.validation_paths, key::data.source},
       config_.metrics.validate_every == 0 || !files || !config_.validation.paths.empty(),
       key::metrics.validate_every, " needs files, but ", key::data.validation_paths,
       ": write data.validation_paths = [\"FILE\"], or metrics.validate_every = "
       "0");
}

void RunRules::blend_rules() {
  const std::vector<std::string> parts = deck_[key::data.blend];
  rule({key::data.blend, key::data.source}, !parts.empty(), key::data.source,
       " needs its parts: write data.blend = [\"0.7 tokens a.h5\", \"0.3 tokens b.h5\"]");
  if (is_quiet()) return;
  for (const std::string& part : parts) {
    std::string wrong;
    try {
      io::parse_blend_part(part);
    } catch (const Error& error) {
      wrong = error.what();
    }
    rule({key::data.blend}, wrong.empty(), "data.blend: ", wrong);
  }
}

void RunRules::batch_rules() {
  const auto& batch = config_.batch;
  const auto& mesh = config_.parallel.mesh;
  const std::int64_t axes = std::int64_t{1} * mesh.tensor * mesh.context * mesh.pipeline;
  ranks_rule(
      {key::parallel.tensor, key::parallel.context, key::parallel.pipeline},
      [&] { return ranks_ % axes == 0; },
      [&] {
        const std::int64_t below = ranks_ / axes * axes;
        std::vector<std::string> fewer;
        for (std::int64_t ranks = below; ranks > 0 && fewer.size() < 32; ranks -= axes)
          fewer.push_back(std::to_string(ranks));
        return show(key::parallel.tensor) + " x " + show(key::parallel.context) + " x " +
               show(key::parallel.pipeline) +
               format(" = {} must divide the number of ranks, {}", axes, ranks_) +
               advise({Advice(fewer), Advice(multiples_from(below + axes, axes))});
      });
  divides({key::batch.micro, batch.micro}, {key::batch.global, batch.global});
  ranks_rule(
      {key::batch.global, key::batch.micro, key::parallel.tensor, key::parallel.context,
       key::parallel.pipeline},
      [&] {
        return batch.global % batch.micro != 0 || batch.global / batch.micro >= mesh.data;
      },
      [&] {
        const std::int64_t rows = batch.global / batch.micro;
        return show(key::batch.global) + " is less than a microbatch, " +
               show(key::batch.micro) +
               format(", for each of {} data ranks ({} / ", mesh.data,
                      counted(ranks_, "rank")) +
               show(key::parallel.tensor) + ")" +
               advise({{key::batch.global,
                        multiples_from(batch.global, batch.micro * mesh.data)},
                       Advice(ranks_of(numbers(rows, 1), axes))});
      });
}

// Sizes that would overflow later arithmetic. In doubles: limits need no last digit.
void RunRules::size_rules() {
  constexpr double most_tokens_of_a_forward = 0x1p31, most_tokens = 0x1p62,
                   most_weights = 0x1p50;
  const auto& m = config_.model;
  const auto real = [](std::int64_t value) { return static_cast<double>(value); };
  const double forward = real(config_.batch.micro) * real(m.sequence);
  rule({key::batch.micro, key::model.sequence}, forward < most_tokens_of_a_forward,
       key::batch.micro, " x ", key::model.sequence,
       " tokens in one forward is too many: write less than 2147483648 in all");
  constexpr std::int64_t most_microbatches = 65536;  // a schedule has a row for each
  const std::int64_t share = config_.batch.micro * config_.parallel.mesh.data;
  rule({key::batch.global, key::batch.micro, key::parallel.tensor, key::parallel.context,
        key::parallel.pipeline},
       share == 0 || config_.batch.global / share <= most_microbatches, key::batch.global,
       " in microbatches of ", key::batch.micro,
       " are more than 65536 for a data rank: write a larger batch.micro");
  rule({key::run.steps, key::batch.global, key::model.sequence},
       real(config_.run.steps) * real(config_.batch.global) * real(m.sequence) <
           most_tokens,
       key::run.steps, " x ", key::batch.global, " x ", key::model.sequence,
       " tokens cannot be counted: write less than 2^62 in all");
  rule(
      {key::model.layers, key::model.hidden, key::model.feed_forward,
       key::model.vocabulary, key::model.architecture},
      [&] {
        const double heads = real(m.heads) * real(m.own_head_width);
        const double block =
                         4 * std::max(real(m.hidden), heads) + 3 * real(m.feed_forward),
                     ends = 2 * real(m.vocabulary) + real(m.sequence);
        return real(m.hidden) * (real(m.layers) * block + ends) < most_weights;
      },
      key::model.layers, ", ", key::model.hidden, ", ",
      Resolved{key::model.feed_forward, m.feed_forward}, " and ",
      Resolved{key::model.vocabulary, m.vocabulary},
      " make more than 2^50 weights: write smaller ones");
}

}  // namespace trireme::config
