// The search of `trireme plan`: its options, its deck and its picture.
// SPDX-License-Identifier: Apache-2.0
#include "app/plan_search.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "app/deck_arguments.hpp"
#include "app/measured_search.hpp"
#include "app/memory_check.hpp"
#include "app/named_model.hpp"
#include "app/planned_device.hpp"
#include "app/search_picture.hpp"
#include "app/sweep_points.hpp"
#include "base/counted.hpp"
#include "base/log.hpp"
#include "config/deck_table.hpp"
#include "config/keys.hpp"
#include "engine/gpu_misfit.hpp"
#include "io/deck_include.hpp"
#include "io/deck_schema.hpp"
#include "io/files.hpp"
#include "plan/search.hpp"

namespace trireme::app {
namespace {

void require_key(const std::string& option, const std::string& key) {
  for (const io::DeckKey& row : config::deck_table())
    if (full_name(row) == key) return;
  fail(Status::command_line, "{} {}: no such key of the deck; see trireme help deck",
       option, key);
}

// --allow precision: types that are faster or smaller than the deck's, as far as the
// machine file has their rates. They change what is computed, so that nobody gets them
// unasked; what else the command line says of a type stands.
void allow_precision(const plan::Machine& machine, plan::SearchDeck& out) {
  const io::Deck own = out.deck({});
  const auto value = [&](const char* key) {
    std::string text = own.value_text(key);
    std::erase(text, '"');
    return text;
  };
  const auto add = [&](const char* key, std::vector<std::string> values) {
    if (values.size() > 1 && out.fixed.insert(key).second)
      out.grids.push_back({key, std::move(values)});
  };
  const std::string compute = value("precision.compute"),
                    moments = value("precision.moments");
  std::vector<std::string> types = {compute};
  const bool wide = compute == "fp64" || compute == "fp32";
  if (wide && machine.products.bf16 > 0) types.emplace_back("bf16");
  if (compute != "fp8" && machine.products.fp8 > 0) types.emplace_back("fp8");
  // A recipe names all types.
  if (value("precision.recipe") == "auto") add("precision.compute", std::move(types));
  if (moments == "auto" || moments == "fp32") add("precision.moments", {moments, "bf16"});
}

plan::SearchDeck search_deck(const Arguments& arguments, const plan::Machine& machine,
                             int ranks) {
  plan::SearchDeck out;
  out.name = arguments.words().front();
  out.overrides.assign(arguments.words().begin() + 1, arguments.words().end());
  // What the command line says stands.
  for (const std::string& override : out.overrides) out.fixed.insert(key_of(override));
  for (const std::string& fix : arguments.texts("--fix")) {
    require_key("--fix", key_of(fix));
    out.fixed.insert(key_of(fix));
    if (fix.find('=') != std::string::npos) out.overrides.push_back(fix);
  }
  for (const std::string& text : arguments.texts("--grid")) {
    require_key("--grid", key_of(text));
    require(text.find('=') != std::string::npos, Status::command_line,
            "--grid {}: write its values, as --grid key=a,b", text);
    out.fixed.insert(key_of(text));
    out.grids.push_back(
        {key_of(text), split_outside(text.substr(text.find('=') + 1), ',')});
  }
  for (const std::string& what : arguments.texts("--allow"))
    require(what == "precision", Status::command_line,
            "--allow {}: a search may be allowed one thing, precision", what);
  out.ranks = ranks;
  out.ranks_on_node =
      static_cast<int>(std::min<std::int64_t>(machine.ranks_per_node, ranks));
  if (names_model(out.name)) {
    out.text = plan_deck(read_named_model(out.name), read_wishes(arguments), ranks);
    out.name = format("the deck of {}", out.name);
    static_cast<void>(out.deck({}));
    if (arguments.has("--allow")) allow_precision(machine, out);
    return out;
  }
  const io::Deck deck = config::load_with_model(out.name, out.overrides, read_model);
  deck.require_sound();
  out.text = deck[config::key::model.from].empty()
                 ? io::self_contained_deck(out.name, config::deck_table())
                 : deck.effective();
  if (arguments.has("--allow")) allow_precision(machine, out);
  return out;
}

// Says why the rules refuse all candidates, where they do.
void require_candidates(const plan::SearchSpace& space,
                        const plan::SearchResult& result) {
  if (result.refused < result.candidates) return;
  const plan::SearchDeck& deck = space.deck();
  // The rules say why, of the plainest candidate or of the deck itself.
  const std::vector<std::string> more = space.candidates().empty()
                                            ? std::vector<std::string>()
                                            : space.overrides(space.candidates().front());
  const config::RunConfig config =
      config::make_run_config(deck.deck(more), deck.ranks, deck.ranks_on_node);
  const std::string misfit = deck.gpus ? engine::gpu_misfit(config) : "";
  require(misfit.empty(), Status::bad_content, "{}", misfit);
  fail(Status::bad_content,
       "no deck for {}: fix fewer keys, or change batch.global (at least a "
       "microbatch a data rank)",
       counted(deck.ranks, "rank"));
}

// Why there is nothing to rank.
[[noreturn]] void fail_without_result(const plan::SearchSpace& space,
                                      const plan::SearchResult& result,
                                      const plan::MemoryRoom& room) {
  require_candidates(space, result);
  require(
      result.planned.empty() || room.host_bytes <= 0, Status::resources,
      "none of {} decks fits: those that fit a rank's {} of {} need more of its node's "
      "memory than {}: give it more ranks, or fix fewer keys",
      result.candidates, human_bytes(room.bytes), room.from,
      human_bytes(room.host_bytes));
  fail(Status::resources,
       "none of {} decks fits: the least that one needs is about {}, and a rank has {} "
       "({}): give it more ranks, fix fewer keys, or allow other types (--allow "
       "precision)",
       result.candidates, human_bytes(result.least_bytes), human_bytes(room.bytes),
       room.from);
}

std::string picture_path(const Arguments& arguments) {
  if (arguments.has("--plot")) return arguments.text("--plot", "");
  if (!arguments.has("-o")) return {};
  return std::filesystem::path(arguments.text("-o", ""))
      .replace_extension(".svg")
      .string();
}

// Where the results go, before a search that may take a minute.
void require_places(const Arguments& arguments) {
  namespace fs = std::filesystem;
  const std::string deck = arguments.text("-o", ""), picture = picture_path(arguments);
  std::error_code none;
  const bool same = deck == picture || fs::weakly_canonical(deck, none) ==
                                           fs::weakly_canonical(picture, none);
  require(deck.empty() || !same, Status::command_line,
          "-o {}: the picture would replace the deck: write a name that ends in .toml",
          deck);
  for (const std::string& path : {deck, picture}) {
    if (path.empty()) continue;
    std::error_code absent;
    const fs::path folder = fs::path(path).parent_path();
    require(folder.empty() || fs::is_directory(folder, absent), Status::cannot_create,
            "{}: there is no folder '{}': make it, or write another name", path,
            folder.string());
    require(!fs::is_directory(path, absent), Status::cannot_create,
            "{}: is a directory, where a file is to be: write another name", path);
    for (const std::string& read :
         {arguments.words().front(), arguments.text("--machine", "")})
      require(read.empty() || !fs::equivalent(path, read, absent), Status::cannot_create,
              "{}: is what the search starts from, and would be lost: write another name",
              path);
  }
}

// winner_place: in result.ranked.
void write_results(const Arguments& arguments, const plan::SearchSpace& space,
                   const plan::SearchResult& result, std::size_t winner_place,
                   const plan::Machine& machine, const plan::MemoryRoom& room) {
  const plan::PlannedCandidate& winner = result.ranked[winner_place];
  const int ranks = space.deck().ranks;
  if (arguments.has("-o")) {
    const std::string path = arguments.text("-o", "");
    const io::Deck deck = space.deck().deck(space.overrides(winner.candidate));
    io::write_text_atomically(
        path, io::schema_line() +
                  format("# The fastest deck that trireme plan --search found for {} of "
                         "'{}': {} a step.\n",
                         counted(ranks, "rank"), machine.name,
                         human_seconds(winner.seconds())) +
                  deck.effective());
    log::line(format("wrote {}", path));
  }
  const std::string picture = picture_path(arguments);
  if (picture.empty()) return;
  io::write_text_atomically(
      picture,
      search_picture(result, room,
                     format("{}: {} of {}",
                            std::filesystem::path(space.deck().name).filename().string(),
                            counted(ranks, "rank"), machine.name)));
  log::line(format("wrote {}", picture));
}

// What the rules say of tensors' names and of data does not depend on what is searched,
// and is not asked of each candidate: it is asked of the first one that is allowed.
void require_deck(const plan::SearchSpace& space) {
  constexpr std::size_t most = 1000;  // that are looked at: a second or so
  const plan::SearchDeck& deck = space.deck();
  for (std::size_t i = 0; i < std::min(most, space.candidates().size()); ++i) {
    const std::vector<std::string> more = space.overrides(space.candidates()[i]);
    if (!deck.make(more)) continue;
    config::make_run_config(deck.deck(more), deck.ranks, deck.ranks_on_node);
    return;
  }
}

// The search, on rank 0 alone: its result is a function of deck and machine file.
class SearchRun {
 public:
  SearchRun(const Arguments& arguments, const plan::Machine& machine,
            const plan::SearchDeck& deck, int threads)
      : arguments_(arguments), machine_(machine), room_(room_on(machine)) {
    plan::SearchDeck copy = deck;
    const plan::PlannedDevice on = planned_device(deck.read({}).run, &machine, threads);
    copy.gpus = copy.offloads = copy.offloads_activations = on.device.is_cuda();
    space_.emplace(std::move(copy));
    require_deck(*space_);
    plan::SearchLimits limits;
    limits.top = static_cast<std::size_t>(arguments.integer("--top", 10, 1, 1000));
    limits.most_plans = std::max(limits.most_plans, 2 * limits.top);
    result_ = plan::search(*space_, on, room_, limits);
    if (result_.ranked.empty()) fail_without_result(*space_, result_, room_);
    log::line(plan::describe(result_, *space_, room_, limits.top));
    log::line(plan::describe(result_.ranked.front().prediction, machine));
  }

  std::vector<MeasuredDeck> best(std::size_t count) const {
    std::vector<MeasuredDeck> decks;
    for (std::size_t i = 0; i < std::min(count, result_.ranked.size()); ++i)
      decks.push_back({space_->overrides(result_.ranked[i].candidate),
                       result_.ranked[i].seconds(), 0});
    return decks;
  }
  void write(std::size_t winner) const {
    write_results(arguments_, *space_, result_, winner, machine_, room_);
  }

 private:
  const Arguments& arguments_;
  const plan::Machine& machine_;
  plan::MemoryRoom room_;
  std::optional<plan::SearchSpace> space_;
  plan::SearchResult result_;
};

// From rank 0 to all: overrides alone, a line each; an empty line ends a deck.
void share(comm::World& world, std::vector<MeasuredDeck>& decks) {
  std::string text;
  for (const MeasuredDeck& deck : decks) {
    for (const std::string& override : deck.overrides) text += override + "\n";
    text += "\n";
  }
  text = world.broadcast(text);
  if (world.rank() == 0) return;
  decks.assign(1, {});
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    if (end == at)
      decks.emplace_back();
    else
      decks.back().overrides.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  decks.pop_back();
}

}  // namespace

int plan_search(comm::World& world, const Arguments& arguments,
                const plan::Machine& machine, int ranks) {
  std::optional<plan::SearchDeck> deck;
  std::optional<SearchRun> search;
  std::vector<MeasuredDeck> decks;
  std::size_t measured = 0;
  world.agree([&] {
    measured = static_cast<std::size_t>(arguments.integer("--measure", 0, 1, 100));
    require(measured == 0 || ranks == world.size(), Status::command_line,
            "--measure runs decks on the ranks that were started, which are {}: start {} "
            "of them, or search for {} (--ranks)",
            world.size(), ranks, world.size());
    deck = search_deck(arguments, machine, ranks);
    if (world.rank() == 0) {
      require_places(arguments);
      search.emplace(arguments, machine, *deck, planning_threads(world.ranks_on_node()));
    }
    if (search) decks = search->best(measured);
  });
  std::size_t winner = 0;
  if (measured > 0) {
    share(world, decks);
    measure_decks(world, *deck, machine, decks);
    const std::vector<std::size_t> places = order_of(decks);
    winner = places.front();
    if (world.rank() == 0) log::line(describe(decks, places));
  }
  world.agree([&] {
    if (search) search->write(winner);
  });
  return 0;
}

}  // namespace trireme::app
