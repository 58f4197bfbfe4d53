// `trireme evaluate MODEL DATA [--logits FILE.h5] [--sequence N] [--device D]`.
// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>

#include "app/adapters.hpp"
#include "app/app.hpp"
#include "app/deck_arguments.hpp"
#include "app/held_weights.hpp"
#include "app/inspect_data.hpp"
#include "app/model_text.hpp"
#include "base/log.hpp"
#include "base/system_reason.hpp"
#include "base/temporary_files.hpp"
#include "infer/evaluation.hpp"
#include "io/hdf5_file.hpp"
#include "io/host_copy.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/runtime/runtime.hpp"
#include "text/text_source.hpp"

namespace trireme::app {
namespace {

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
  source.packing = io::Packing::none;
  source.infilling = {};
  const bool reads_text =
      source.kind == io::SourceKind::text || source.kind == io::SourceKind::chat;
  if (reads_text || arguments.has("--tokenizer"))
    source.tokenizer = tokenizer_path(arguments, config);
  require(!reads_text || !source.tokenizer.empty(), Status::command_line,
          "{} is no token file, and the model was trained on token ids: give "
          "--tokenizer to read it as text, or a file that trireme tokenize made",
          path);
  // Whether the tokenizer is the model's.
  open_text(arguments, config, reads_text ? TextNeed::always : TextNeed::if_asked);
  return text::open_source(source);
}

// Gathers logits over the tensor axis and writes them as one dataset [T, V] on rank 0.
// The file gets its name when it is whole.
class LogitsWriter {
 public:
  LogitsWriter(comm::World& world, const std::string& path,
               const infer::LoadedModel& model, std::int64_t tokens)
      : world_(world), model_(model), path_(path) {
    const std::int64_t V = model.config().vocabulary;
    world_.agree([&] {
      if (world_.rank() != 0) return;
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
    world_.agree([&] {
      if (file_) file_->write_rows("logits", first, host_.read(whole_CV));
    });
  }
  void close() {
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
  std::optional<TemporaryFile> unfinished_;  // on rank 0
  std::optional<io::Hdf5File> file_;
  io::HostCopy host_;
};

// Tokens that have a target: of full windows, and of the shorter last one.
std::int64_t target_tokens(const io::SampleSource& source, std::int64_t sequence) {
  std::vector<std::int32_t> window(static_cast<std::size_t>(sequence) + 1);
  source.sample(source.windows() - 1, window);
  return (source.windows() - 1) * sequence +
         std::count_if(window.begin() + 1, window.end(), [](auto id) { return id >= 0; });
}

}  // namespace

int evaluate(comm::World& world, const Arguments& given) {
  Arguments arguments = given;
  std::unique_ptr<io::TensorSource> tensors;
  config::RunConfig config;
  std::unique_ptr<io::SampleSource> source;
  world.agree([&] {
    constexpr Option options[] = {{"--logits", true},
                                  {"--sequence", true},
                                  {"--device", true},
                                  {"--tokenizer", true},
                                  {"--adapter", true},
                                  {"--weights", true}};
    arguments.parse(
        "trireme evaluate MODEL DATA [--tokenizer F] [--logits FILE.h5] [--sequence N] "
        "[--adapter DIR[=WEIGHT],...] [--weights auto|codes|numbers] "
        "[--device auto|cpu|cuda]",
        options, 2, 2);
    OpenedModel opened = open_model(world, arguments.words()[0],
                                    arguments.integer("--sequence", 0, 1, 1 << 27));
    config = opened.config;
    tensors = std::move(opened.tensors);
    if (arguments.has("--adapter"))
      tensors =
          with_adapters(std::move(tensors), config.model,
                        parse_adapters("--adapter", arguments.text("--adapter", "")));
    source = open_data(arguments, config, arguments.words()[1]);
    require(config.model.heads % world.size() == 0, Status::resources,
            "model.heads = {} cannot be split over {} ranks; start a divisor of it",
            config.model.heads, world.size());
  });
  const kernels::Runtime runtime(0, world.ranks_on_node());
  const launch::ComputeDevice on = device_of(world, arguments);
  comm::Mesh mesh(world, {.tensor = world.size()}, {}, on.device, on.transport);
  std::optional<infer::LoadedModel> model;
  world.agree([&] {
    model.emplace(config.model, config.precision.compute, mesh.group(comm::Axis::tensor),
                  config.model.sequence, *tensors, on.device, infer::StagePart{},
                  held_weights(arguments, on.device));
  });
  report_codes(world, *model);
  infer::Evaluation result;
  if (arguments.has("--logits")) {
    LogitsWriter writer(world, arguments.text("--logits", ""), *model,
                        target_tokens(*source, config.model.sequence));
    result = infer::evaluate(*model, *source,
                             [&](std::int64_t first, const TensorView& logits) {
                               writer.write(first, logits);
                             });
    writer.close();
  } else {
    result = infer::evaluate(*model, *source);
  }
  log::info("{}", source->describe());
  log::info("loss {}  perplexity {}  tokens {}", exact(result.loss()),
            fixed(std::exp(result.loss()), 4), result.tokens);
  return 0;
}

}  // namespace trireme::app
