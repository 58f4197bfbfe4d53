// `trireme evaluate MODEL DATA`: loss and perplexity, logits on request, or questions.
// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "app/adapters.hpp"
#include "app/app.hpp"
#include "app/deck_arguments.hpp"
#include "app/evaluate_choices.hpp"
#include "app/generate_batch.hpp"
#include "app/inspect_data.hpp"
#include "app/model_text.hpp"
#include "app/placement_options.hpp"
#include "app/result_path.hpp"
#include "base/directory.hpp"
#include "base/log.hpp"
#include "base/path.hpp"
#include "base/system_reason.hpp"
#include "base/temporary_files.hpp"
#include "data/text_source.hpp"
#include "infer/evaluation.hpp"
#include "infer/sampler.hpp"
#include "io/hdf5_file.hpp"
#include "io/host_copy.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/runtime/runtime.hpp"

namespace trireme::app {
namespace {

constexpr std::string_view usage =
    "trireme evaluate MODEL DATA [--tokenizer F] [--logits FILE.h5] [--sequence N] "
    "[--pipeline N] [--adapter DIR[=WEIGHT],...] [--weights auto|codes|numbers] "
    "[--device auto|cpu|cuda] [--device-map "
    "auto|balanced|balanced_low_0|sequential|FILE] [--max-memory gpu0=SIZE,cpu=SIZE] "
    "[--dry-run]\n"
    "trireme evaluate MODEL --choices FILE.jsonl [-o OUT.jsonl] [--no-space] "
    "[--special-tokens] [options]";
constexpr Option options[] = {
    {"--tokenizer", true}, {"--logits", true},         {"--sequence", true},
    {"--pipeline", true},  {"--device", true},         {"--weights", true},
    {"--adapter", true},   {"--device-map", true},     {"--max-memory", true},
    {"--dry-run", false},  {"--choices", true},        {"-o", true},
    {"--no-space", false}, {"--special-tokens", false}};

// Options of one way of two mean nothing with the other.
void check_way(const Arguments& arguments) {
  const bool asks = arguments.has("--choices");
  const std::size_t words = arguments.words().size();
  require(asks || words == 2, Status::command_line, "an argument is missing after '{}'{}",
          arguments.words().front(), usage_below(usage));
  require(!asks || words == 1, Status::command_line,
          "--choices takes the place of '{}': drop one of them{}",
          arguments.words().back(), usage_below(usage));
  require(!asks || !arguments.has("--logits"), Status::command_line,
          "--logits writes those of a file of data: drop it, or --choices");
  for (const char* const option : {"-o", "--no-space", "--special-tokens"})
    require(asks || !arguments.has(option), Status::command_line,
            "{} goes with --choices: drop it, or name a file of questions", option);
}

// Bytes and conversations are read as in training. Else token files are known by what
// they are, and other files are text.
io::SourceKind kind_of_data(io::SourceKind trained_on, const std::string& path) {
  if (trained_on == io::SourceKind::bytes) return trained_on;
  if (const auto kind = token_file_kind(path)) return *kind;
  return trained_on == io::SourceKind::chat ? trained_on : io::SourceKind::text;
}

std::unique_ptr<io::SampleSource> open_data(const Arguments& arguments,
                                            const config::RunConfig& config,
                                            const std::string& path) {
  io::SourceConfig source = config.data;
  source.kind = kind_of_data(source.kind, path);
  source.paths = {path};
  source.blend.clear();
  source.named_by.clear();
  source.names = {};
  if (arguments.has("--tokenizer")) source.names.tokenizer = "--tokenizer";
  source.packing = io::Packing::none;
  source.infilling = {};
  source.sequence_by = "--sequence";
  const bool reads_text =
      source.kind == io::SourceKind::text || source.kind == io::SourceKind::chat;
  if (reads_text || arguments.has("--tokenizer"))
    source.tokenizer = tokenizer_path(arguments, config);
  if (reads_text) require_tokenizer(arguments, source.tokenizer);
  require(!reads_text || !source.tokenizer.empty(), Status::command_line,
          "{} is no token file, and the checkpoint names no tokenizer: give "
          "--tokenizer to read it as text, or a file that trireme tokenize made",
          path);
  // Whether the tokenizer is the model's.
  open_text(arguments, config, reads_text ? TextNeed::always : TextNeed::if_asked);
  return data::open_source(source);
}

// Gathers logits over the tensor axis and writes them as one dataset [T, V] on one rank
// of the last stage. The file gets its name when it is whole.
class LogitsWriter {
 public:
  LogitsWriter(comm::World& world, const std::string& path,
               const infer::LoadedModel& model, std::int64_t tokens)
      : world_(world), model_(model), path_(path) {
    const std::int64_t V = model.config().vocabulary;
    world_.agree([&] {
      if (!model.part().last() || !model.region().counts_here()) return;
      unfinished_.emplace(format("{}.tmp-{}", path, ::getpid()));
      file_.emplace(unfinished_->path(), io::Hdf5File::Mode::create);
      file_->create("logits", accumulator_of(model.dtype()), {tokens, V});
    });
  }
  void write(std::int64_t first, const TensorView& logits_CV) {
    const std::int64_t C = logits_CV.dim(0), V = model_.config().vocabulary;
    const std::int64_t ranks = model_.region().size(), padded_V = divide_up(V, ranks);
    Stream stream(model_.device());
    Arena arena(model_.device(),
                static_cast<std::size_t>(C * (padded_V + ranks * padded_V + V)) *
                        size_of(logits_CV.dtype()) +
                    4 * Arena::alignment,
                MemoryClass::workspace, "gathered logits");
    const TensorView padded_CR = arena.take(logits_CV.dtype(), {C, padded_V}, "padded");
    kernels::copy(stream, logits_CV, padded_CR.columns(0, logits_CV.dim(1)));
    const TensorView all = model_.region().gather(stream, arena, padded_CR);
    const TensorView whole_CV = arena.take(logits_CV.dtype(), {C, V}, "whole");
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const Range part = split_range(V, ranks, rank);
      kernels::copy(stream,
                    all.rows(rank, 1).reshape({C, padded_V}).columns(0, part.count()),
                    whole_CV.columns(part.begin, part.count()));
    }
    if (!file_ || failed_) return;
    try {
      file_->write_rows("logits", first, host_.read(whole_CV));
    } catch (const Error& error) {
      failed_ = error;
    }
  }
  // Collective: throws what went wrong while logits were written.
  void check() {
    world_.agree([&] {
      if (failed_) throw Error(*failed_);
    });
  }
  void close() {
    check();
    world_.agree([&] {
      if (!file_) return;
      file_->close();
      unfinished_->place([&] {
        if (::rename(unfinished_->path().c_str(), path_.c_str()) != 0)
          fail(Status::cannot_create, "{}: cannot be replaced: {}", path_,
               system_reason(errno));
      });
    });
  }

 private:
  comm::World& world_;
  const infer::LoadedModel& model_;
  std::string path_;
  std::optional<Error> failed_;
  std::optional<TemporaryFile> unfinished_;  // on the rank that writes
  std::optional<io::Hdf5File> file_;
  io::HostCopy host_;
};

// Only logits are replaced.
void check_logits(const std::string& path, const std::string& data) {
  constexpr std::string_view what = "file of logits";
  check_result(path, {data}, "--logits");
  Directory(parent_of(path)).require_file(last_name_of(path));
  check_replaced(path, {hdf5_beginning}, what);
  std::error_code none;
  if (std::filesystem::exists(path, none) && std::filesystem::file_size(path, none) > 0)
    require(io::Hdf5File(path, io::Hdf5File::Mode::read).has("logits"),
            Status::cannot_create,
            "{}: is there already, and is no {}, which would take its place: move it "
            "away, or give the result another name",
            path, what);
}

// Tokens that have a target: of full windows, and of the shorter last one.
std::int64_t target_tokens(const io::SampleSource& source, std::int64_t sequence) {
  std::vector<std::int32_t> window(static_cast<std::size_t>(sequence) + 1);
  source.sample(source.windows() - 1, window);
  return (source.windows() - 1) * sequence +
         std::count_if(window.begin() + 1, window.end(), [](auto id) { return id >= 0; });
}

// Throws Error(bad_content) where the loss is no number.
void report(const io::SampleSource& source, const infer::Evaluation& result) {
  log::info("{}", source.describe());
  require(std::isfinite(result.loss()), Status::bad_content, "the loss is {}: {}",
          result.loss(), infer::why_not_finite);
  log::info("loss {}  perplexity {}  tokens {}", exact(result.loss()),
            fixed(std::exp(result.loss()), 4), result.tokens);
}

}  // namespace

int evaluate(comm::World& world, const Arguments& given) {
  Arguments arguments = given;
  OpenedModel opened;
  std::unique_ptr<io::SampleSource> source;
  comm::MeshShape shape;
  PlacementRequest placement;
  world.agree([&] {
    arguments.parse(usage, options, 1, 2);
    check_way(arguments);
    placement = placement_request(arguments);
    opened = open_model(world, arguments.words()[0],
                        arguments.integer("--sequence", 0, 1, 1 << 27));
    if (arguments.has("--adapter"))
      opened.tensors =
          with_adapters(std::move(opened.tensors), opened.config.model,
                        parse_adapters("--adapter", arguments.text("--adapter", "")));
    if (arguments.has("--choices")) return;
    source = open_data(arguments, opened.config, arguments.words()[1]);
    if (arguments.has("--logits") && world.rank() == 0)
      check_logits(arguments.text("--logits", ""), arguments.words()[1]);
    shape = inference_mesh(world, arguments, opened.config.model);
  });
  if (arguments.has("--choices"))
    return evaluate_choices(world, arguments, placement, std::move(opened));
  const kernels::Runtime runtime(0, world.ranks_on_node());
  const launch::ComputeDevice on = device_of(world, arguments);
  comm::Mesh mesh(world, shape, {}, on.device, on.transport);
  comm::Group& pipeline = mesh.group(comm::Axis::pipeline);
  const std::int64_t sequence = opened.config.model.sequence;
  const ModelUse use{sequence,
                     [&](const infer::LoadedModel& meta) {
                       return infer::evaluation_bytes(meta, pipeline);
                     },
                     "windows"};
  const auto model =
      load_model(world, arguments, placement, opened, mesh, on.device, use);
  if (model == nullptr) return 0;
  infer::Evaluation result;
  if (arguments.has("--logits")) {
    LogitsWriter writer(world, arguments.text("--logits", ""), *model,
                        target_tokens(*source, sequence));
    // A stage does not wait for the others after each window.
    const std::int64_t windows = shape.pipeline > 1 ? 64 : 1;
    result = infer::evaluate(
        *model, pipeline, *source,
        [&](std::int64_t first, const TensorView& logits) {
          writer.write(first, logits);
        },
        [&](std::int64_t done) {
          if (done % windows == 0) writer.check();
        });
    writer.close();
  } else {
    result = infer::evaluate(*model, pipeline, *source);
  }
  report(*source, result);
  return 0;
}

}  // namespace trireme::app
