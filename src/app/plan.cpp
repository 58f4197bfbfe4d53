// `trireme plan DECK|MODEL [section.key=value ...] [--machine FILE] [--search]`.
// SPDX-License-Identifier: Apache-2.0
#include "plan/plan.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <utility>

#include "app/app.hpp"
#include "app/deck_arguments.hpp"
#include "app/memory_check.hpp"
#include "app/named_model.hpp"
#include "app/plan_model.hpp"
#include "app/plan_search.hpp"
#include "app/planned_device.hpp"
#include "base/log.hpp"
#include "base/terminal.hpp"
#include "base/text.hpp"
#include "io/deck.hpp"
#include "kernels/runtime/runtime.hpp"
#include "launch/compute_device.hpp"
#include "plan/prediction.hpp"

namespace trireme::app {

plan::PlannedDevice planned_device(const config::RunSettings& run,
                                   const plan::Machine* machine, int threads) {
  using config::DeviceChoice;
  if (machine == nullptr) {
    const auto on = launch::expected_device(run.device, run.backend, run.share_gpus);
    return {on.device, on.transport, nullptr, on.gpu_bytes, threads};
  }
  const bool fits = run.device == DeviceChoice::automatic ||
                    (run.device == DeviceChoice::cuda) == machine->gpus;
  require(fits, Status::bad_content,
          "run.device = \"{}\", but ranks of the machine file '{}' compute on {}: write "
          "run.device = \"auto\", or name another file",
          machine->gpus ? "cpu" : "cuda", machine->name, machine->gpus ? "GPUs" : "CPUs");
  if (!machine->gpus) return {Device::host(), comm::Transport::mpi, machine, 0, threads};
  const bool by_mpi = run.backend == comm::Backend::mpi || run.share_gpus;
  return {Device::cuda(0), by_mpi ? comm::Transport::mpi : comm::Transport::nccl, machine,
          static_cast<std::int64_t>(machine->memory_bytes), threads};
}

int planning_threads(int ranks_on_node) {
  const int threads = kernels::usual_threads(ranks_on_node);
  return std::getenv("OMP_NUM_THREADS") != nullptr ? threads : std::min(threads, 8);
}

namespace {

// Of a name that is neither: which names there are.
void require_deck_or_model(const std::string& word, bool is_model) {
  std::error_code ignored;
  if (is_model || std::filesystem::exists(word, ignored)) return;
  std::string names;
  for (const std::string& name : model_names())
    names += (names.empty() ? "" : ", ") + name;
  fail(Status::missing_input,
       "{}: there is no such deck, folder or config.json, and no model of that name in "
       "inputs/models, which has {}{}",
       word, names.empty() ? "none here" : names, io::nearest_deck_text(word));
}

}  // namespace

int plan(comm::World& world, const Arguments& given) {
  Arguments arguments = given;
  LoadedDeck deck;
  std::optional<plan::Machine> machine;
  int ranks = 1;
  bool searches = false, models = false;
  world.agree([&] {
    constexpr Option options[] = {
        {"--ranks", true},     {"--machine", true},    {"--search", false},
        {"--fix", true, true}, {"--grid", true, true}, {"--allow", true, true},
        {"--top", true},       {"-o", true},           {"--plot", true},
        {"--measure", true},   {"--sequence", true},   {"--batch", true},
        {"--precision", true}};
    arguments.parse(
        "trireme plan DECK|FOLDER|config.json|NAME [section.key=value ...] [--ranks N] "
        "[--machine FILE] [--search ...]",
        options, 1, 10000);
    ranks = static_cast<int>(arguments.integer("--ranks", world.size(), 1, 1 << 24));
    if (arguments.has("--machine"))
      machine = plan::read_machine(arguments.text("--machine", ""));
    searches = arguments.has("--search");
    require(!searches || machine, Status::command_line,
            "--search needs a machine: add --machine FILE (inputs/machines, or one that "
            "trireme bench --machine measured)");
    for (const char* option :
         {"--fix", "--grid", "--allow", "--top", "-o", "--plot", "--measure"})
      require(searches || !arguments.has(option), Status::command_line,
              "{} belongs to --search: add it, or leave {} out", option, option);
    models = names_model(arguments.words().front());
    require_deck_or_model(arguments.words().front(), models);
    for (const auto& [option, key] : {std::pair{"--sequence", "model.sequence"},
                                      {"--batch", "batch.global"},
                                      {"--precision", "precision.compute"}})
      require(models || !arguments.has(option), Status::command_line,
              "{} belongs to a model's folder or name; with a deck write {}=...", option,
              key);
    if (!searches && !models) deck = load_deck(arguments.words(), ranks);
  });
  if (searches) return plan_search(world, arguments, *machine, ranks);
  if (models) return plan_model(world, arguments, machine ? &*machine : nullptr, ranks);
  plan::PlannedDevice on;
  world.agree([&] {
    on = planned_device(deck.config.run, machine ? &*machine : nullptr,
                        planning_threads(world.ranks_on_node()));
  });
  const std::vector<plan::Plan> plans = plan::plan_stages(deck.config, on);
  log::line(wrapped(plan::describe(deck.config, plans), terminal::prose_columns(), 10));
  if (!machine) {
    log::info("Whether this fits, and how fast it is: add --machine FILE");
    return 0;
  }
  log::line(wrapped(plan::describe(plan::predict(deck.config, plans, *machine), *machine),
                    terminal::prose_columns(), 10));
  world.agree([&] {
    require_room(arguments.words(), ranks, 0, deck.config, plans, on, room_on(*machine));
  });
  return 0;
}

}  // namespace trireme::app
