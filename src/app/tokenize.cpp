// `trireme tokenize FILES... --tokenizer F -o OUT`: text to token files, on any ranks.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "app/app.hpp"
#include "app/result_path.hpp"
#include "app/tokenizer_option.hpp"
#include "app/train_tokenizer.hpp"
#include "base/counted.hpp"
#include "base/cpu_place.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "io/token_formats.hpp"
#include "io/token_writer.hpp"
#include "text/corpus.hpp"
#include "text/parallel_encoder.hpp"
#include "text/token_part.hpp"
#include "text/tokenize_plan.hpp"
#include "text/tokenizer.hpp"

namespace trireme::app {
namespace {

constexpr std::string_view usage =
    "trireme tokenize FILES... --tokenizer F -o OUT.h5 [--format hdf5|megatron|llmc] "
    "[--field NAME] [--end-token TEXT] [--threads N]\n"
    "       trireme tokenize FILES... --train SIZE -o tokenizer.json [--min-frequency N] "
    "[--field NAME] [--end-token TEXT] [--threads N]";
constexpr Option options[] = {{"--tokenizer", true}, {"-o", true},
                              {"--field", true},     {"--end-token", true},
                              {"--threads", true},   {"--format", true},
                              {"--train", true},     {"--min-frequency", true}};

io::TokenFormat format_of(const Arguments& arguments) {
  const std::string name = arguments.text("--format", "hdf5");
  static const std::map<std::string, io::TokenFormat> formats = {
      {"hdf5", io::TokenFormat::hdf5},
      {"megatron", io::TokenFormat::megatron},
      {"llmc", io::TokenFormat::llmc}};
  const auto found = formats.find(name);
  require(found != formats.end(), Status::command_line,
          "--format {}: must be hdf5, megatron or llmc", name);
  return found->second;
}

std::int32_t end_token_of(const text::Tokenizer& tokenizer, const Arguments& arguments) {
  if (arguments.has("--end-token")) {
    const std::string token = arguments.text("--end-token", "");
    const auto id = tokenizer.id_of(token);
    require(id.has_value(), Status::command_line,
            "--end-token '{}': the tokenizer has no such token", token);
    return *id;
  }
  const auto id = tokenizer.end_token();
  require(id.has_value(), Status::command_line,
          "the tokenizer does not say which token ends a document: give --end-token");
  return *id;
}

// By their names files are known, and none bears that of another format. Megatron-LM's
// pair is named by what its two names have in common, llm.c's file ends in .bin.
std::string result_name(std::string path, io::TokenFormat format) {
  const bool hdf5 = path.ends_with(".h5") || path.ends_with(".hdf5"),
             bin = path.ends_with(".bin"), idx = path.ends_with(".idx");
  switch (format) {
    case io::TokenFormat::hdf5:
      require(!bin && !idx, Status::command_line,
              "-o {}: is a name of another format: write --format megatron or --format "
              "llmc too, or a name that ends in .h5",
              path);
      break;
    case io::TokenFormat::megatron:
      require(!hdf5, Status::command_line,
              "-o {}: with --format megatron write OUT, of OUT.bin and OUT.idx", path);
      if (bin || idx) path.erase(path.size() - 4);
      break;
    case io::TokenFormat::llmc:
      require(!hdf5 && !idx, Status::command_line,
              "-o {}: with --format llmc write a name that ends in .bin", path);
      if (!bin && !path.ends_with('/')) path += ".bin";
  }
  return path;
}

// What the command line says, and what it names.
struct Job {
  explicit Job(const Arguments& arguments)
      : tokenizer(tokenizer_option(arguments)),
        format(format_of(arguments)),
        path(result_name(arguments.text("-o", ""), format)),
        parts_name(last_name_of(path) + ".parts"),
        info{tokenizer.digest(), tokenizer.vocabulary(),
             end_token_of(tokenizer, arguments)},
        dtype(io::token_dtype(format, info.vocabulary)) {
    if (arguments.has("--field")) field = arguments.text("--field", "");
  }
  // All but the files that decides which tokens a part holds.
  std::string settings() const {
    return trireme::format("1 {} {} {} {}", info.tokenizer_digest, info.end_token,
                           name_of(dtype), field ? "field " + *field : "no field");
  }

  text::Tokenizer tokenizer;
  io::TokenFormat format;
  std::string path, parts_name;
  io::TokenFileInfo info;
  DType dtype;
  std::optional<std::string> field;
};

// Tells every few seconds how far this rank is.
class Progress {
 public:
  explicit Progress(std::size_t parts) : parts_(parts) {}
  void add(std::int64_t text_bytes, std::int64_t tokens) {
    bytes_ += text_bytes;
    tokens_ += tokens;
    const auto now = std::chrono::steady_clock::now();
    if (now - told_ < std::chrono::seconds(5)) return;
    told_ = now;
    log::info("{} of {} parts, {} of text, {} tokens", done_, parts_,
              human_bytes(static_cast<double>(bytes_)),
              human_count(static_cast<double>(tokens_)));
  }
  void part_done() { ++done_; }

 private:
  std::size_t parts_, done_ = 0;
  std::int64_t bytes_ = 0, tokens_ = 0;
  std::chrono::steady_clock::time_point told_ = std::chrono::steady_clock::now();
};

// This rank's parts. Those that an earlier job made are kept; how many those are. All
// threads encode documents of any part, and each part is written in its turn.
std::int64_t make_parts(const Job& job, const text::TokenizePlan& plan,
                        const comm::World& world, int threads) {
  const Directory folder = Directory(parent_of(job.path)).open(job.parts_name);
  const std::vector<int> ranks = plan.ranks(world.size());
  Progress progress(plan.parts.size());
  std::optional<text::PartWriter> out;  // of the part whose turn it is
  text::ParallelEncoder encoder(
      job.tokenizer, threads,
      [&](const std::vector<std::int32_t>& ids, std::int64_t text_bytes) {
        out->add(ids, text_bytes);
        progress.add(text_bytes, std::ssize(ids) + 1);
      });
  std::int64_t kept = 0;
  for (std::size_t i = 0; i < plan.parts.size(); ++i) {
    if (ranks[i] != world.rank()) continue;
    const text::TokenizePart& part = plan.parts[i];
    if (text::find_part(folder, part.name(), part.key, job.dtype)) {
      ++kept;
      progress.part_done();
      continue;
    }
    encoder.in_turn([&, &part = part] {
      out.emplace(folder, part.name(), part.key, job.dtype, job.info.end_token);
    });
    for (const std::string& file : part.files) encoder.add_file(file, job.field);
    encoder.in_turn([&] {
      out->close();
      out.reset();
      progress.part_done();
    });
  }
  encoder.finish();
  return kept;
}

struct Totals {
  std::int64_t tokens = 0, documents = 0, text_bytes = 0;
};

// Puts the parts together, in their order, and removes them.
Totals assemble(const Job& job, const text::TokenizePlan& plan) {
  const Directory above(parent_of(job.path));
  Totals totals;
  std::vector<std::int64_t> ends = {0};
  {
    const Directory folder = above.open(job.parts_name);
    std::vector<text::PartInfo> parts;
    for (const text::TokenizePart& part : plan.parts) {
      const auto found = text::part_info(folder, part.name(), part.key, job.dtype);
      require(found.has_value(), Status::io,
              "{}: is not there, though a rank has written it: do all ranks see one file "
              "system?",
              folder.path_of(part.name()));
      parts.push_back(*found);
      totals.tokens += found->tokens;
      totals.documents += found->documents;
      totals.text_bytes += found->text_bytes;
    }
    require(totals.documents > 0, Status::bad_content, "{}{}: no text in {}",
            one_line(plan.parts.front().files.front()),
            plan.files > 1 ? " and others" : "", plan.files > 1 ? "them" : "it");
    const auto out = io::make_token_writer(job.format, job.path, job.info, totals.tokens);
    ends.reserve(static_cast<std::size_t>(totals.documents) + 1);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const std::int64_t begin = ends.back();
      for (const std::int64_t end :
           text::read_part(folder, plan.parts[i].name(), parts[i], job.dtype,
                           [&](const TensorView& tokens) { out->add(tokens); }))
        ends.push_back(begin + end);
    }
    out->close(ends);
  }
  above.remove_tree(job.parts_name);
  return totals;
}

// Left behind after an error only where a whole part is in it.
void remove_if_empty(const Job& job) {
  const Directory above(parent_of(job.path));
  if (above.has(job.parts_name) && above.open(job.parts_name).names().empty())
    above.remove_tree(job.parts_name);
}

// The bytes of a number as a file begins with it.
std::string_view begins(const std::int32_t& magic) {
  return {reinterpret_cast<const char*>(&magic), sizeof magic};
}

// read: what the job reads, which its result must not replace.
void check_output(const Job& job, const std::vector<std::string>& read) {
  const Directory above(parent_of(job.path));
  const std::string name = last_name_of(job.path);
  const bool has_index_file = job.format == io::TokenFormat::megatron;
  for (const char* end : has_index_file ? std::vector{".bin", ".idx"} : std::vector{""}) {
    above.require_file(name + end);
    check_result(job.path + end, read);
  }
  switch (job.format) {
    case io::TokenFormat::hdf5:
      check_replaced(job.path, {hdf5_beginning}, "token file");
      break;
    case io::TokenFormat::llmc:
      check_replaced(job.path, {begins(io::llmc::magic_u16), begins(io::llmc::magic_u32)},
                     "token file of llm.c");
      break;
    case io::TokenFormat::megatron:
      check_replaced(job.path + ".idx", {io::megatron::magic}, "index of Megatron-LM");
      require(
          !above.has(name + ".bin") || above.has(name + ".idx"), Status::cannot_create,
          "{}.bin: is there already, and no index beside it: move it away, or give the "
          "result another name",
          one_line(job.path));
  }
  above.make(job.parts_name);
}

int threads_of(const Arguments& arguments, const comm::World& world) {
  const auto cores = static_cast<std::int64_t>(allowed_cores().size());
  return static_cast<int>(arguments.integer(
      "--threads", std::max<std::int64_t>(cores / world.ranks_on_node(), 1), 1, 1024));
}

void tokenize_files(comm::World& world, const Arguments& arguments) {
  const auto start = std::chrono::steady_clock::now();
  std::optional<Job> job;
  std::string plan_text;
  int threads = 1;
  world.agree([&] {
    threads = threads_of(arguments, world);
    job.emplace(arguments);
    if (world.rank() != 0) return;
    const auto files = text::corpus_files(arguments.words());
    std::vector<std::string> read = files;
    read.push_back(arguments.text("--tokenizer", ""));
    check_output(*job, read);
    plan_text = text::plan_tokenize(files, job->settings()).text();
  });
  const text::TokenizePlan plan = text::TokenizePlan::of_text(world.broadcast(plan_text));
  std::int64_t kept = 0;
  try {
    world.agree([&] { kept = make_parts(*job, plan, world, threads); });
    const double all_kept = world.sum(static_cast<double>(kept));
    if (all_kept > 0 && world.rank() == 0)
      log::info("{} of {} parts were there already", fixed(all_kept, 0),
                plan.parts.size());
    Totals totals;
    world.agree([&] {
      if (world.rank() == 0) totals = assemble(*job, plan);
    });
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    if (world.rank() == 0)
      log::info("{}: {} of {}, {} of text in {}, {}", job->path,
                counted(totals.tokens, "token"), counted(totals.documents, "document"),
                human_bytes(static_cast<double>(totals.text_bytes)),
                counted(plan.files, "file"), human_seconds(time.count()));
  } catch (const comm::Agreed&) {
    if (world.rank() == 0) remove_if_empty(*job);
    throw;
  }
}

}  // namespace

int tokenize(comm::World& world, const Arguments& given) {
  Arguments arguments = given;
  world.agree([&] {
    arguments.parse(usage, options, 1, std::numeric_limits<std::size_t>::max());
    require(arguments.has("-o"), Status::command_line, "-o is missing{}",
            usage_below(usage));
    require(
        arguments.has("--tokenizer") != arguments.has("--train"), Status::command_line,
        "--tokenizer is missing, or stands beside --train: one of the two is needed{}",
        usage_below(usage));
    require(!arguments.has("--train") || !arguments.has("--format"), Status::command_line,
            "--format has no meaning with --train{}", usage_below(usage));
    require(arguments.has("--train") || !arguments.has("--min-frequency"),
            Status::command_line, "--min-frequency wants --train{}", usage_below(usage));
    const auto& words = arguments.words();
    const bool reads_input = std::find(words.begin(), words.end(), "-") != words.end();
    require(world.size() == 1 || !(reads_input || arguments.has("--train")),
            Status::command_line,
            "{} works on one rank, not on {}: start it without mpirun",
            reads_input ? "standard input" : "--train", world.size());
  });
  if (arguments.has("--train"))
    world.agree([&] { train_tokenizer(arguments, threads_of(arguments, world)); });
  else
    tokenize_files(world, arguments);
  return 0;
}

}  // namespace trireme::app
