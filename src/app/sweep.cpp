// `trireme sweep`: a manifest and a job array of a parameter sweep, and its state.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>

#include "app/app.hpp"
#include "app/deck_arguments.hpp"
#include "app/shell.hpp"
#include "app/sweep_manifest.hpp"
#include "app/sweep_points.hpp"
#include "app/sweep_script.hpp"
#include "app/sweep_status.hpp"
#include "base/counted.hpp"
#include "base/log.hpp"
#include "base/path.hpp"
#include "config/deck_table.hpp"
#include "io/deck_include.hpp"
#include "io/deck_toml.hpp"
#include "io/digest.hpp"
#include "io/files.hpp"

namespace trireme::app {
namespace {

constexpr std::string_view usage =
    "trireme sweep DECK [section.key=value ...] [--grid key=a,b,c ...] [--list FILE] "
    "[--directory DIR] [--ranks N], or trireme sweep --status FILE [--json | --csv], or "
    "trireme sweep --resubmit FILE [--all]";
constexpr std::int64_t most_bytes = 64 << 20;

// Every point's problems; one that several points have is said once.
class Problems {
 public:
  void add(std::size_t point, const Error& error) {
    auto& seen = points_[error.what()];
    if (seen.empty()) order_.emplace_back(error.what());
    seen.push_back(static_cast<std::int64_t>(point));
    statuses_.insert(error.status());
  }
  void require_none(std::size_t count) const {
    if (order_.empty()) return;
    std::string text;
    for (const auto& message : order_) {
      const auto& seen = points_.at(message);
      text += text.empty() ? "" : "\n";
      text += seen.size() == count ? "every point: "
                                   : format("point {}: ", array_expression(seen));
      text += message;
    }
    throw Error(statuses_.size() == 1 ? *statuses_.begin() : Status::bad_content, text);
  }

 private:
  std::map<std::string, std::vector<std::int64_t>> points_;
  std::vector<std::string> order_;
  std::set<Status> statuses_;
};

std::string absolute(const std::string& path) {
  std::error_code error;
  const auto whole = std::filesystem::canonical(path, error);
  require(!error, Status::missing_input, "{}: its absolute path cannot be found: {}",
          path, error.message());
  return whole.string();
}

// What `trireme train` will be given for a point whose run lies in `directory`.
std::vector<std::string> words_of(const SweepManifest& manifest, const std::string& deck,
                                  const SweepPoint& point, const std::string& directory) {
  std::vector<std::string> words = {deck};
  words.insert(words.end(), manifest.base.begin(), manifest.base.end());
  words.insert(words.end(), point.overrides.begin(), point.overrides.end());
  words.push_back(directory_override(directory));
  return words;
}

// Where the points' runs will lie, of a directory that need not be there yet: tasks name
// it in run.directory, so it has to be a text that a deck may hold. The points' decks are
// good already.
void check_directory(const SweepManifest& manifest, const std::string& deck) {
  const std::string& directory = manifest.directory;
  std::error_code error;
  const auto whole = std::filesystem::weakly_canonical(directory, error);
  require(!error, Status::command_line, "--directory {}: {}", io::shorten(directory, 80),
          error.message());
  try {
    load_deck(words_of(manifest, deck, manifest.points.front(), whole.string()),
              static_cast<int>(manifest.ranks));
  } catch (const Error& problem) {
    fail(Status::command_line, "--directory cannot be used for runs: {}", problem.what());
  }
}

std::string this_program() {
  const std::string path = path_of_program();
  return path.empty() ? "trireme" : path;
}

// Checks every point's deck, in the file that the user names, and fills in the digests.
void check_points(SweepManifest& manifest, const std::string& deck) {
  Problems problems;
  std::map<std::string, std::size_t> first_with;
  for (std::size_t i = 0; i < manifest.points.size(); ++i) {
    auto& point = manifest.points[i];
    try {
      // The digest leaves out where the run lies: every point has the same directory
      // here.
      const auto words = words_of(manifest, deck, point, "point");
      point.digest =
          io::digest_of(load_deck(words, static_cast<int>(manifest.ranks)).effective);
      const auto [same, is_new] = first_with.emplace(point.digest, i);
      require(is_new, Status::command_line, "is the same run as point {}", same->second);
    } catch (const Error& error) {
      problems.add(i, error);
    }
  }
  problems.require_none(manifest.points.size());
}

// An override of all points that a point gives too would be a trap.
void check_base(const SweepManifest& manifest) {
  std::set<std::string> swept;
  for (const auto& point : manifest.points)
    for (const auto& word : point.overrides) swept.insert(key_of(word));
  for (const auto& word : manifest.base)
    require(!swept.contains(key_of(word)) && key_of(word) != "run.directory",
            Status::command_line, "{}: the sweep itself gives {}", word, key_of(word));
}

// Whether the file is there with another content than this.
void require_same_or_new(const std::string& path, const std::string& text) {
  if (::access(path.c_str(), F_OK) != 0) return;
  require(io::read_text(path, most_bytes) == text, Status::cannot_create,
          "{}: belongs to another sweep; give this one another --directory", path);
}

void make(const Arguments& arguments, int ranks) {
  // 1. The points
  SweepManifest manifest;
  const std::string deck = arguments.words().front();
  manifest.directory = arguments.text("--directory", "sweep");
  manifest.deck = "deck.toml";
  manifest.ranks = arguments.integer("--ranks", ranks, 1, 1 << 24);
  manifest.base.assign(arguments.words().begin() + 1, arguments.words().end());
  const std::string list = arguments.text("--list", "");
  const auto grids = arguments.texts("--grid");
  require(!grids.empty() || !list.empty(), Status::command_line,
          "a sweep needs --grid key=a,b,c or --list FILE");
  for (auto& overrides : sweep_points(
           grids, list.empty() ? "" : io::read_text_or_pipe(list, most_bytes), list))
    manifest.points.push_back(
        {point_name(static_cast<std::int64_t>(manifest.points.size())),
         std::move(overrides), ""});
  // 2. Whether they can run
  check_base(manifest);
  check_points(manifest, deck);
  check_directory(manifest, deck);
  // 3. The files
  const std::string text = io::self_contained_deck(deck, config::deck_table());
  manifest.deck_digest = io::digest_of(text);
  const std::string path = manifest.directory + "/sweep.toml";
  const std::string toml = manifest.toml();
  require_same_or_new(path, toml);
  require_same_or_new(manifest.directory + "/deck.toml", text);
  io::make_directories(manifest.directory);
  io::write_text_atomically(manifest.directory + "/deck.toml", text);
  io::write_text_atomically(
      manifest.directory + "/sweep.sbatch",
      SweepScript{static_cast<std::int64_t>(manifest.points.size()), manifest.ranks,
                  absolute(manifest.directory), absolute("."), this_program()}
          .text());
  io::write_text_atomically(path, toml);
  log::info("{} points in {}", manifest.points.size(), path);
  std::vector<std::int64_t> all(manifest.points.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int64_t>(i);
  std::string commands = submit_commands(all, manifest.directory + "/sweep.sbatch");
  commands.pop_back();
  log::info("submit them all:\n{}", commands);
}

// A sweep is named by its folder, too.
std::string sweep_file(const std::string& path) {
  return is_folder(path) ? without_slashes(path) + "/sweep.toml" : path;
}

void print_status(const std::string& path, const Arguments& arguments) {
  const auto manifest = SweepManifest::read(path);
  const auto states = point_states(manifest);
  if (arguments.has("--json")) return log::line(status_json(manifest, states));
  if (arguments.has("--csv")) return log::line(status_csv(manifest, states));
  log::line(status_table(manifest, states));
}

void print_resubmission(const std::string& path, bool all) {
  const auto manifest = SweepManifest::read(path);
  const auto states = point_states(manifest);
  const auto wanted = unfinished(states, all);
  const auto left_out = unfinished(states, true).size() - wanted.size();
  if (left_out > 0)
    log::info("# {} diverged and {} left out; --all adds {}",
              counted(static_cast<std::int64_t>(left_out), "point"),
              left_out == 1 ? "is" : "are", left_out == 1 ? "it" : "them");
  std::string commands = submit_commands(wanted, manifest.directory + "/sweep.sbatch");
  if (commands.empty()) {
    if (left_out == 0) log::info("# every point is done or running");
    return;
  }
  commands.pop_back();
  log::line(commands);
}

}  // namespace

int sweep(comm::World& world, const Arguments& given) {
  Arguments arguments = given;
  world.agree([&] {
    constexpr Option options[] = {
        {"--grid", true, true}, {"--list", true},   {"--directory", true},
        {"--ranks", true},      {"--status", true}, {"--resubmit", true},
        {"--json", false},      {"--csv", false},   {"--all", false}};
    arguments.parse(usage, options, 0, 10000);
    const bool asks = arguments.has("--status") || arguments.has("--resubmit");
    require(asks || !arguments.words().empty(), Status::command_line,
            "which deck, or which --status FILE or --resubmit FILE?{}",
            usage_below(usage));
    require(!arguments.has("--status") || !arguments.has("--resubmit"),
            Status::command_line, "--status and --resubmit exclude each other");
    for (const auto* option : {"--grid", "--list", "--directory", "--ranks"})
      require(!asks || !arguments.has(option), Status::command_line,
              "{} makes a sweep: leave it out with --status or --resubmit", option);
    require(!asks || arguments.words().empty(), Status::command_line,
            "--status and --resubmit take no deck: leave '{}' out",
            asks && !arguments.words().empty() ? arguments.words().front() : "");
    for (const auto* option : {"--json", "--csv"})
      require(arguments.has("--status") || !arguments.has(option), Status::command_line,
              "{} goes with --status", option);
    require(!arguments.has("--json") || !arguments.has("--csv"), Status::command_line,
            "--json and --csv exclude each other");
    require(arguments.has("--resubmit") || !arguments.has("--all"), Status::command_line,
            "--all goes with --resubmit");
    if (world.rank() != 0) return;
    if (arguments.has("--status"))
      return print_status(sweep_file(arguments.text("--status", "")), arguments);
    if (arguments.has("--resubmit"))
      return print_resubmission(sweep_file(arguments.text("--resubmit", "")),
                                arguments.has("--all"));
    make(arguments, world.size());
  });
  return 0;
}

}  // namespace trireme::app
