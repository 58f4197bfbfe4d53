// `trireme init [FOLDER|SIZE]`: a first deck, commented, and a job script where Slurm is.
// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "app/app.hpp"
#include "app/deck_arguments.hpp"
#include "app/init_deck.hpp"
#include "app/job_script.hpp"
#include "app/planned_device.hpp"
#include "app/shell.hpp"
#include "base/counted.hpp"
#include "base/log.hpp"
#include "data/text_source.hpp"
#include "io/deck_schema.hpp"
#include "io/files.hpp"
#include "model/stage.hpp"
#include "plan/search.hpp"

namespace trireme::app {
namespace {

namespace fs = std::filesystem;

// The mesh, as the search has it.
struct Choice {
  std::vector<std::string> overrides;
  double bytes = 0, seconds = 0;
};

plan::SearchDeck search_deck(const InitAnswers& answers, const InitMachine& on,
                             const std::string& name) {
  plan::SearchDeck deck;
  deck.text = plain_text(deck_lines(answers, on, name, true));
  deck.name = "the deck of these answers";
  deck.ranks = answers.ranks;
  deck.ranks_on_node =
      static_cast<int>(std::min<std::int64_t>(on.machine.ranks_per_node, answers.ranks));
  deck.offloads = on.machine.gpus;
  return deck;
}

// why: of the rules, of the plainest deck; may be empty.
[[noreturn]] void refuse_mesh(const InitAnswers& answers, const std::string& why) {
  const std::string ranks = counted(answers.ranks, "rank");
  if (answers.batch % answers.ranks == 0)
    fail(Status::bad_content, "no deck for {} and these answers{}", ranks, why);
  fail(
      Status::bad_content,
      "no deck for {}: {} a step (--batch) must be a multiple of the data ranks, and the "
      "model must take the others: write --batch {}, or other --ranks{}",
      ranks, counted(answers.batch, "sequence"), answers.ranks, why);
}

// The fastest mesh that fits, of few plans: by the machine file, or by a machine that
// says no more than which of two decks is faster.
Choice choose(const InitAnswers& answers, const InitMachine& on,
              const std::string& name) {
  plan::Machine machine = on.machine;
  machine.memory_bytes = rank_memory(on, answers.ranks);
  if (!on.measured && !machine.gpus) machine.ranks_per_node = answers.ranks;
  const plan::SearchSpace space(search_deck(answers, on, name));
  const plan::MemoryRoom room{machine.memory_bytes, on.memory_from,
                              machine.gpus ? machine.host_memory_bytes : 0,
                              on.memory_from};
  const plan::PlannedDevice device =
      planned_device(space.deck().read({}).run, &machine, planning_threads(1));
  const plan::SearchResult result =
      plan::search(space, device, room, {.top = 1, .most_plans = 16});
  if (!result.ranked.empty()) {
    const plan::PlannedCandidate& best = result.ranked.front();
    return {space.overrides(best.candidate), best.bytes, best.seconds()};
  }
  if (result.refused == result.candidates) {
    // The rules say why, of the plainest candidate or of the deck itself.
    const std::vector<std::string> more =
        space.candidates().empty() ? std::vector<std::string>()
                                   : space.overrides(space.candidates().front());
    std::string why;
    try {
      config::make_run_config(space.deck().deck(more), space.deck().ranks,
                              space.deck().ranks_on_node);
    } catch (const Error& error) {
      why = format(". The plainest one: {}", error.what());
    }
    refuse_mesh(answers, why);
  }
  fail(Status::resources,
       "none of {} meshes of {} fits: the least that one needs is about {} a rank, "
       "and there are {} ({}): give it more ranks (--ranks), shorter sequences "
       "(--sequence){}",
       result.candidates, counted(answers.ranks, "rank"), human_bytes(result.least_bytes),
       human_bytes(room.bytes), room.from,
       answers.part == TrainedPart::all_weights ? ", or train adapters (--train lora)"
                                                : ", or a smaller model");
}

// Of what the search says, what a deck would not have anyway.
void add_choice(const Choice& choice, const plan::SearchDeck& deck,
                std::vector<DeckLine>& lines) {
  const io::Deck plain = deck.deck({});
  for (const std::string& override : choice.overrides) {
    const auto at = override.find('=');
    const std::string key = override.substr(0, at), value = override.substr(at + 1);
    if (key != "batch.micro" && plain.value_text(key) == value) continue;
    lines.push_back({key, value});
  }
}

std::string head_of(const std::string& path, const InitAnswers& answers,
                    const InitMachine& on, const Choice& choice) {
  const std::string file = shell_path(fs::path(path).filename().string());
  std::string text = format(
      "# {}: {} parameters on {}, made by trireme init; change what you like.\n"
      "#\n#   mpirun -n {} trireme train {}\n#   trireme train {} --check --ranks {}\n#\n"
      "# A rank takes {} of {} ({}).",
      answers.model.name, model::parameter_count(answers.model.model),
      counted(answers.ranks, "rank"), answers.ranks, file, file, answers.ranks,
      human_bytes(choice.bytes), human_bytes(rank_memory(on, answers.ranks)),
      on.memory_from);
  if (on.measured)
    text += format(" A step is predicted to take {}.", human_seconds(choice.seconds));
  return io::schema_line() + text + "\n# Every key of a deck: trireme help deck.\n";
}

// The program of Slurm that takes jobs is where PATH leads.
bool has_slurm() {
  const char* path = std::getenv("PATH");
  const std::string folders = path == nullptr ? "" : path;
  for (std::size_t at = 0; at < folders.size();) {
    const std::size_t end = std::min(folders.find(':', at), folders.size());
    if (::access((folders.substr(at, end - at) + "/sbatch").c_str(), X_OK) == 0)
      return true;
    at = end + 1;
  }
  return false;
}

void require_new(const std::string& path) {
  require(!fs::exists(fs::symlink_status(path)), Status::cannot_create,
          "{}: is there already: move it away, or name another file (-o)", path);
}

// A deck, and the job script beside it where there is one.
void require_new(const std::string& deck, bool slurm) {
  require_new(deck);
  if (slurm) require_new(fs::path(deck).replace_extension(".sbatch").string());
}

// Writes a file that is not there, and removes it where `check` throws.
template <class Check>
void write_checked(const std::string& path, const std::string& text, const Check& check) {
  require_new(path);
  io::write_text_atomically(path, text);
  try {
    check();
  } catch (...) {
    std::error_code ignored;
    fs::remove(path, ignored);
    throw;
  }
}

std::string deck_path(const Arguments& arguments, const InitAnswers& answers) {
  const std::string path = arguments.text("-o", answers.model.name + ".toml");
  require(fs::path(path).extension() == ".toml", Status::command_line,
          "-o {}: a deck's name ends in .toml", path);
  return path;
}

void write_script(const std::string& path, const InitAnswers& answers,
                  const InitMachine& on, const std::string& name) {
  JobScript script;
  script.name = name;
  script.deck = fs::absolute(path).lexically_normal().string();
  script.directory = fs::current_path().string();
  script.program = path_of_program();
  script.ranks = answers.ranks;
  script.ranks_per_node = on.machine.gpus || on.measured
                              ? on.machine.ranks_per_node
                              : std::min<std::int64_t>(on.node_ranks, answers.ranks);
  script.cores = std::max<std::int64_t>(
      1, on.cores / std::min<std::int64_t>(script.ranks_per_node, answers.ranks));
  script.gpus = on.machine.gpus;
  const std::string file = fs::path(path).replace_extension(".sbatch").string();
  write_checked(file, script.text(), [] {});
  log::info("wrote {}: sbatch {}", file, shell_path(file));
}

void write_all(const Arguments& arguments) {
  const InitMachine on = look_at_machine(arguments);
  const bool slurm = has_slurm();
  if (arguments.has("-o")) require_new(deck_path(arguments, {}), slurm);
  Interview interview(arguments, arguments.has("--yes"));
  const InitAnswers answers = ask_all(arguments, interview, on);
  const std::string path = deck_path(arguments, answers),
                    name = plain_name(fs::path(path).stem().string());
  require_new(path, slurm);
  const Choice choice = choose(answers, on, name);
  std::vector<DeckLine> lines = deck_lines(answers, on, name, false);
  add_choice(choice, search_deck(answers, on, name), lines);
  write_checked(path, commented_text(head_of(path, answers, on, choice), lines), [&] {
    const LoadedDeck deck = load_deck({path}, answers.ranks);
    data::open_source(deck.config.data);
  });
  log::info("wrote {}: {}, {} of {} a rank; mpirun -n {} trireme train {}", path,
            counted(answers.ranks, "rank"), human_bytes(choice.bytes),
            human_bytes(rank_memory(on, answers.ranks)), answers.ranks, shell_path(path));
  if (slurm) write_script(path, answers, on, name);
}

}  // namespace

int init(comm::World& world, const Arguments& given) {
  Arguments arguments = given;
  world.agree([&] {
    constexpr Option options[] = {
        {"--yes", false},     {"--model", true},     {"--train", true},
        {"--data", true},     {"--tokenizer", true}, {"--ranks", true},
        {"--sequence", true}, {"--batch", true},     {"--steps", true},
        {"--machine", true},  {"-o", true}};
    arguments.parse("trireme init [FOLDER|config.json|NAME|SIZE] [--yes] [options]",
                    options, 0, 1);
    require(arguments.words().empty() || !arguments.has("--model"), Status::command_line,
            "--model {} and {}: name one model", arguments.text("--model", ""),
            arguments.words().empty() ? "" : arguments.words().front());
    require(world.size() == 1 || arguments.has("--yes"), Status::command_line,
            "init asks questions: start it without mpirun or srun, or give --yes");
    if (world.rank() == 0) write_all(arguments);
  });
  return 0;
}

}  // namespace trireme::app
