// `trireme inspect CHECKPOINT|FOLDER [--tensors | --verify | --make-views]`.
// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>

#include "app/app.hpp"
#include "app/inspect_data.hpp"
#include "app/inspect_deck.hpp"
#include "app/sweep_manifest.hpp"
#include "base/counted.hpp"
#include "base/log.hpp"
#include "base/text_table.hpp"
#include "config/start_model.hpp"
#include "convert/model_folder.hpp"
#include "io/checkpoint_find.hpp"
#include "io/checkpoint_verify.hpp"
#include "io/checkpoint_views.hpp"
#include "io/deck_settings.hpp"

namespace trireme::app {
namespace {

void describe(const io::CheckpointInfo& info, const std::string& directory) {
  log::info("checkpoint {}", directory);
  log::info("format {}, written by trireme {}, step {}, {} tokens", info.format_version,
            info.program_version, info.step, info.tokens);
  if (!info.written.empty())
    log::info("saved {} on {}{}{}", info.written, info.host,
              info.loss ? format(", loss {}", fixed(*info.loss, 4)) : std::string(),
              info.commit.empty() ? std::string() : ", commit " + info.commit);
  log::info("mesh pipeline {} data {} context {} tensor {}", info.mesh.pipeline,
            info.mesh.data, info.mesh.context, info.mesh.tensor);
}

// The model and the run, as the deck in a checkpoint has them; a deck that cannot be read
// is left to those who need it.
void describe_deck(const std::string& deck) {
  std::map<std::string, std::string> values;
  for (const auto& setting : io::deck_settings(deck))
    values[setting.key] = setting.text();
  if (values.empty()) return;
  log::info("run {} of {} steps, {} in {}", values["run.name"], values["run.steps"],
            values["optimizer.name"], values["precision.compute"]);
  log::info(
      "model {}, {} layers, hidden {}, heads {} ({} key/value), vocabulary {}, "
      "sequence {}",
      values["model.architecture"], values["model.layers"], values["model.hidden"],
      values["model.heads"], values["model.kv_heads"], values["model.vocabulary"],
      values["model.sequence"]);
}

void say_whether_views_stand(const Directory& folder) {
  if (folder.has(io::whole_name)) return;
  log::info(
      "{} has no views of whole tensors; trireme inspect {} --make-views makes them",
      folder.path(), folder.path());
}

// "" where there are none, or the digests of all files have those of the views, too.
std::string damage_of_views(const std::string& path, const io::Manifest& manifest) {
  const Directory folder = Directory::to_read(path);
  if (io::lists_views(manifest) || !folder.has(io::whole_name)) return "";
  const std::string wrong = io::why_views_differ(folder);
  if (wrong.empty()) return "";
  return format("{} (the checkpoint is whole without them: --make-views makes them)\n",
                wrong);
}

// Makes the views of whole tensors unless they stand as they were made.
void make_views(comm::World& world, const std::string& given) {
  world.agree([&] {
    if (world.rank() != 0) return;
    const std::string path = io::find_checkpoint(given);
    const io::Manifest manifest = io::read_manifest(path);
    const Directory folder(path);
    const bool stand =
        folder.has(io::whole_name) &&
        (io::lists_views(manifest) || io::why_views_differ(folder).empty());
    if (!stand) io::make_views(folder);
    log::info(stand ? "{}: the views of whole tensors stand already"
                    : "{}: the views of whole tensors are made",
              folder.path_of(io::whole_name));
  });
}

// Compares every byte with its digest, shared out over the ranks, and names every part
// that is damaged.
void verify(comm::World& world, const std::string& given) {
  const auto begin = std::chrono::steady_clock::now();
  std::string path, damaged;
  io::Manifest manifest;
  io::Verification found;
  world.agree([&] {
    path = io::find_checkpoint(given);
    manifest = io::read_manifest(path);
    found = io::verify_share(path, manifest, world.rank(), world.size());
  });
  for (const auto& message : found.damage) damaged += message + "\n";
  world.agree([&] {
    if (world.rank() == 0) damaged += damage_of_views(path, manifest);
  });
  const double bytes = world.sum(static_cast<double>(found.bytes));
  const double parts =
      world.sum(static_cast<double>(std::count(damaged.begin(), damaged.end(), '\n')));
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  std::string all;
  for (const auto& text : world.gather_text(damaged)) all += text;
  all = world.broadcast(all);
  if (!all.empty()) {
    all.pop_back();
    throw comm::Agreed(Status::bad_content,
                       parts > 1 ? format("{} parts of the checkpoint are damaged:\n{}",
                                          static_cast<int>(parts), all)
                                 : all);
  }
  describe(manifest.info, path);
  log::info("{} files of {} in {} tensors are as they were written: {} s, {} GB/s on {}",
            manifest.files.size() + (manifest.info.format_version > 1 ? 2 : 1),
            human_bytes(bytes), manifest.tensors.size(), fixed(time.count(), 2),
            fixed(bytes / time.count() * 1e-9, 2), counted(world.size(), "rank"));
  if (world.rank() == 0) say_whether_views_stand(Directory::to_read(path));
}

// What a checkpoint holds, by the first part of its tensors' paths ("model",
// "optimizer"): of the manifest alone, no tensor is read.
void summarize(comm::World& world, const std::string& given) {
  world.agree([&] {
    if (world.rank() != 0) return;
    const io::CheckpointReader reader(given, io::no_digests);
    describe(reader.info(), reader.directory());
    describe_deck(reader.info().deck);
    say_whether_views_stand(Directory::to_read(reader.directory()));
    struct Sum {
      std::int64_t tensors = 0, elements = 0;
      double bytes = 0;
      std::map<std::string_view, std::int64_t> types;
    };
    std::map<std::string, Sum> sums;
    for (const auto& tensor : reader.tensors()) {
      const std::string kind = tensor.path.substr(0, tensor.path.rfind('/'));
      Sum& sum = sums[kind];
      ++sum.tensors;
      sum.elements += tensor.shape.elements();
      sum.bytes += static_cast<double>(tensor.shape.elements()) *
                   static_cast<double>(size_of(tensor.dtype));
      ++sum.types[name_of(tensor.dtype)];
    }
    std::vector<TextRow> rows = {{"part", "types", "tensors", "elements", "bytes"}};
    for (const auto& [kind, sum] : sums) {
      std::string types;
      for (const auto& [name, count] : sum.types)
        types += format("{}{}", types.empty() ? "" : ", ", name);
      rows.push_back({kind, types, std::to_string(sum.tensors),
                      std::to_string(sum.elements), human_bytes(sum.bytes)});
    }
    std::string table = text_table(rows, 2, 0);
    table.pop_back();
    log::line(table);
    log::info("--tensors lists them with their digests, --verify compares all digests");
  });
}

// Lists the tensors with their digests, each taken by one rank.
void list(comm::World& world, const std::string& path) {
  std::optional<io::CheckpointReader> reader;
  world.agree([&] { reader.emplace(path, io::DigestShare{world.rank(), world.size()}); });
  std::string own;
  world.agree([&] {
    const auto& tensors = reader->tensors();
    for (auto i = static_cast<std::size_t>(world.rank()); i < tensors.size();
         i += static_cast<std::size_t>(world.size()))
      own += reader->digest(tensors[i].path) + "\n";
  });
  const auto digests = world.gather_text(own);
  if (world.rank() != 0) return;
  describe(reader->info(), reader->directory());
  std::int64_t elements = 0;
  constexpr std::size_t digits = 32;
  for (std::size_t i = 0; i < reader->tensors().size(); ++i) {
    const auto& tensor = reader->tensors()[i];
    const std::string& of_rank = digests[i % digests.size()];
    log::info("{}  {} {}  {}", of_rank.substr(i / digests.size() * (digits + 1), digits),
              name_of(tensor.dtype), tensor.shape, tensor.path);
    elements += tensor.shape.elements();
  }
  log::info("{} tensors, {} elements; the digests of all files are right",
            reader->tensors().size(), elements);
}

// What a Hugging Face folder is, and the deck's [model] sections that it stands for.
void describe_folder(const std::string& path, bool tensors) {
  const convert::ModelFolder folder(path);
  const auto& config = folder.config();
  std::int64_t parameters = 0;
  std::map<std::string_view, std::int64_t> types;
  for (const auto& tensor : folder.tensors()) {
    parameters += tensor.whole.shape.elements();
    ++types[tensor.type_name()];
  }
  std::string names;
  for (const auto& [name, count] : types)
    names += format("{}{} in {}", names.empty() ? "" : ", ", count, name);
  log::info("folder {}", path);
  log::info("{} ({}), {} parameters", config.row->class_name, config.row->model_type,
            parameters);
  log::info("{} tensors: {}", folder.tensors().size(), names);
  log::info("{} {}", folder.files().shards().size(),
            folder.files().shards().size() == 1 ? "file" : "shards");
  if (tensors)
    for (const auto& tensor : folder.tensors())
      log::info("{} {}  {}", tensor.type_name(), tensor.whole.shape, tensor.whole.name);
  std::string deck = config::model_text(config.model);
  deck.pop_back();
  log::line(deck);
}

// The checkpoint at a path. Who gives what is none is told what there is to look at.
void check_checkpoint(const std::string& path) {
  struct stat status {};
  const bool is_there = ::stat(path.c_str(), &status) == 0;
  try {
    io::find_checkpoint(path);
  } catch (const Error& error) {
    if (error.status() != Status::missing_input || !is_there) throw;
    const std::string of_texts = S_ISDIR(status.st_mode)
                                     ? "Texts in a folder are seen as tokens"
                                     : "A text is seen as tokens";
    fail(
        Status::missing_input,
        "{}: there is no checkpoint here, nor anything else that inspect takes: a "
        "model's folder, a file of tokens (.h5, .bin, .idx), or a deck (.toml), of which "
        "it shows the data. {} by trireme tokenize {} --tokenizer F -o OUT.h5, then "
        "trireme inspect OUT.h5 --tokenizer F",
        path, of_texts, path);
  }
}

void inspect_checkpoint(comm::World& world, const Arguments& arguments,
                        const std::string& path) {
  if (arguments.has("--make-views"))
    make_views(world, path);
  else if (arguments.has("--verify"))
    verify(world, path);
  else if (arguments.has("--tensors"))
    list(world, path);
  else
    summarize(world, path);
}

void require_one_question(const Arguments& arguments) {
  int asked = 0;
  for (const char* option : {"--verify", "--tensors", "--make-views"})
    asked += arguments.has(option) ? 1 : 0;
  require(asked <= 1, Status::command_line,
          "give one of --tensors, --verify and --make-views");
}

// Whether a value of a sweep's point is asked for, in place of a file.
bool is_point(const Arguments& arguments, const char* usage) {
  const bool point = arguments.has("--manifest");
  require(point == arguments.has("--index") && point == arguments.words().empty() &&
              (!point || arguments.has("--value")),
          Status::command_line, "{}{}",
          point ? "--manifest goes with --index and --value, and without a file"
                : "an argument is missing",
          usage_below(usage));
  return point;
}

void print_point_value(const Arguments& arguments) {
  std::vector<std::string> words = point_words(arguments);
  words.pop_back();  // its directory, on which no other value depends
  print_deck_value(arguments, words);
}

// That they go with what is inspected, and with one another.
void require_options(const Arguments& arguments, bool deck) {
  for (const char* option : {"--step", "--row", "--ranks", "--value"})
    require(deck || !arguments.has(option), Status::command_line, "{} goes with a deck",
            option);
  for (const char* option : {"--verify", "--tensors", "--make-views", "--sequence"})
    require(!deck || !arguments.has(option), Status::command_line,
            "{} does not go with a deck", option);
  require_one_question(arguments);
}

}  // namespace

int inspect(comm::World& world, const Arguments& given) {
  Arguments arguments = given;
  world.agree([&] {
    constexpr Option options[] = {
        {"--verify", false},     {"--tokenizer", true}, {"--tensors", false},
        {"--make-views", false}, {"--sequence", true},  {"--step", true},
        {"--row", true},         {"--ranks", true},     {"--value", true},
        {"--manifest", true},    {"--index", true}};
    constexpr const char* usage =
        "trireme inspect CHECKPOINT|FOLDER [--tensors | --verify | --make-views], or "
        "DATA [--tokenizer F] [--sequence N], or DECK [section.key=value ...] "
        "[--value section.key | [--tokenizer F] [--step N] [--row N] [--ranks N]], or "
        "--manifest FILE --index N --value section.key";
    arguments.parse(usage, options, 0, 10000);
    if (is_point(arguments, usage)) {
      if (world.rank() == 0) print_point_value(arguments);
      return;
    }
    const bool deck = is_deck(arguments.words().front());
    require(deck || arguments.words().size() == 1, Status::command_line,
            "unexpected argument '{}': only a deck takes more words{}",
            arguments.words().back(), usage_below(usage));
    require_options(arguments, deck);
    const auto ranks = arguments.integer("--ranks", world.size(), 1, 1 << 24);
    if (!deck || world.rank() != 0) return;
    if (arguments.has("--value"))
      print_deck_value(arguments, arguments.words());
    else
      inspect_deck(arguments, static_cast<int>(ranks));
  });
  if (arguments.words().empty() || is_deck(arguments.words().front())) return 0;
  const std::string& path = arguments.words().front();
  const bool is_folder = convert::is_model_folder(path);
  bool data = false;
  world.agree([&] {
    data = is_token_file(path);
    if (!data && !is_folder) check_checkpoint(path);
    for (const char* option : {"--tokenizer", "--sequence"})
      require(data || !arguments.has(option), Status::command_line,
              "{} goes with a file of tokens, which {} is not", option, path);
    require(!data || !arguments.has("--verify"), Status::command_line,
            "--verify compares digests, and token files have none");
    require(!arguments.has("--make-views") || !(data || is_folder), Status::command_line,
            "--make-views is for checkpoints, and {} is none", path);
    require(!data || !arguments.has("--tensors"), Status::command_line,
            "--tensors lists those of a model, and token files have none");
    if (data && world.rank() == 0) inspect_data(path, arguments);
  });
  if (data) return 0;
  if (is_folder) {
    world.agree([&] {
      require(!arguments.has("--verify"), Status::command_line,
              "--verify compares digests, and a Hugging Face folder has none");
      describe_folder(path, arguments.has("--tensors"));
    });
  } else {
    inspect_checkpoint(world, arguments, path);
  }
  return 0;
}

}  // namespace trireme::app
