// The search of `trireme plan`: its options, its deck and its picture.
// SPDX-License-Identifier: Apache-2.0
#include "app/plan_search.hpp"

#include <algorithm>
#include <filesystem>

#include "app/deck_arguments.hpp"
#include "app/memory_check.hpp"
#include "app/planned_device.hpp"
#include "app/search_picture.hpp"
#include "app/sweep_points.hpp"
#include "base/log.hpp"
#include "config/deck_table.hpp"
#include "config/keys.hpp"
#include "io/files.hpp"
#include "plan/search.hpp"

namespace trireme::app {
namespace {

constexpr std::int64_t most_deck_bytes = 16 << 20;

std::string key_of(const std::string& override) {
  return override.substr(0, override.find('='));
}

void require_key(const std::string& option, const std::string& key) {
  for (const io::DeckKey& row : config::deck_table())
    if (full_name(row) == key) return;
  fail(Status::command_line, "{} {}: no such key of the deck; see trireme help deck",
       option, key);
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
  out.ranks = ranks;
  out.ranks_on_node =
      static_cast<int>(std::min<std::int64_t>(machine.ranks_per_node, ranks));
  const io::Deck deck = config::load_with_model(out.name, out.overrides, read_model);
  deck.require_sound();
  out.text = deck[config::key::model.from].empty()
                 ? io::read_text_or_pipe(out.name, most_deck_bytes)
                 : deck.effective();
  return out;
}

// Why there is nothing to rank.
[[noreturn]] void fail_without_result(const plan::SearchSpace& space,
                                      const plan::SearchResult& result,
                                      const plan::MemoryRoom& room) {
  const plan::SearchDeck& deck = space.deck();
  if (result.refused == result.candidates) {
    // The rules say why, of the plainest candidate or of the deck itself.
    const std::vector<std::string> more =
        space.candidates().empty() ? std::vector<std::string>()
                                   : space.overrides(space.candidates().front());
    config::make_run_config(deck.deck(more), deck.ranks, deck.ranks_on_node);
    fail(Status::bad_content,
         "no deck for {} ranks: batch.global must be divisible by the data ranks, and "
         "the keys that are fixed must go together: fix fewer, or change batch.global",
         deck.ranks);
  }
  fail(Status::resources,
       "none of {} decks fits: the least that one needs is about {}, and a rank has {} "
       "({}): give it more ranks, fix fewer keys, or try --grid "
       "precision.moments=bf16,auto",
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

void write_results(const Arguments& arguments, const plan::SearchSpace& space,
                   const plan::SearchResult& result, const plan::Machine& machine,
                   const plan::MemoryRoom& room) {
  const plan::PlannedCandidate& winner = result.ranked.front();
  const int ranks = space.deck().ranks;
  if (arguments.has("-o")) {
    const std::string path = arguments.text("-o", "");
    const io::Deck deck = space.deck().deck(space.overrides(winner.candidate));
    io::write_text_atomically(
        path,
        format("# The fastest deck that trireme plan --search found for {} ranks of "
               "'{}': {} a step.\n",
               ranks, machine.name, human_seconds(winner.seconds())) +
            deck.effective());
    log::line(format("wrote {}", path));
  }
  const std::string picture = picture_path(arguments);
  if (picture.empty()) return;
  io::write_text_atomically(
      picture,
      search_picture(result, room,
                     format("{}: {} ranks of {}",
                            std::filesystem::path(space.deck().name).filename().string(),
                            ranks, machine.name)));
  log::line(format("wrote {}", picture));
}

}  // namespace

int plan_search(comm::World& world, const Arguments& arguments,
                const plan::Machine& machine, int ranks) {
  world.agree([&] {
    plan::SearchDeck deck = search_deck(arguments, machine, ranks);
    const config::RunSettings run = deck.read({}).run;
    const plan::PlannedDevice on = planned_device(run, &machine);
    deck.offloads = on.device.is_cuda();
    const plan::SearchSpace space(std::move(deck));
    const plan::MemoryRoom room = room_on(machine);
    plan::SearchLimits limits;
    limits.top = static_cast<std::size_t>(arguments.integer("--top", 10, 1, 1000));
    limits.most_plans = std::max(limits.most_plans, 2 * limits.top);
    const plan::SearchResult result = plan::search(space, on, room, limits);
    if (result.ranked.empty()) fail_without_result(space, result, room);
    log::line(plan::describe(result, space, room, limits.top));
    const plan::PlannedCandidate& winner = result.ranked.front();
    log::line(plan::describe(winner.prediction, machine));
    if (world.rank() == 0) write_results(arguments, space, result, machine, room);
  });
  return 0;
}

}  // namespace trireme::app
