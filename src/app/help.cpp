// `trireme help`: the overview, and pages made from the tables of commands and keys.
// SPDX-License-Identifier: Apache-2.0
#include <sstream>
#include <vector>

#include "app/app.hpp"
#include "app/command_pages.hpp"
#include "app/help_text.hpp"
#include "base/log.hpp"
#include "config/deck_table.hpp"
#include "io/deck.hpp"
#include "io/deck_value.hpp"
#include "io/peer_names.hpp"

namespace trireme::app {
namespace {

constexpr std::string_view overview_text =
    R"(usage: trireme COMMAND ...      under srun or mpirun, or alone for one rank

  train    DECK [section.key=value ...]     run, or resume, a training job
           --check [--ranks N]              only check the deck and print the plan
           [--machine FILE]                 at the end: how far a step was from its prediction
           [--quiet] [--log-level L] [--log-dir DIR]
           --manifest FILE --index N        run, or resume, one point of a sweep
  plan     DECK [section.key=value ...]     memory, traffic and FLOPs per rank
           [--ranks N] [--machine FILE]     with a machine file also the time of a step
           --search [--fix KEY[=VALUE]]     the fastest deck that fits the machine
           [--grid KEY=A,B] [--allow precision] [--top N] [-o FILE.toml] [--plot FILE.svg]
           [--measure K]
           FOLDER|config.json|NAME          what a model takes: inference, LoRA, training
           [--sequence N] [--batch N] [--precision T]
  init     [FOLDER|NAME|SIZE]               asks, and writes a first deck with comments
           [--yes] [--model M] [--train all|lora|new] [--data FILES] [--tokenizer F]
           [--ranks N] [--sequence N] [--batch N] [--steps N] [--machine FILE]
           [-o FILE.toml]
  generate MODEL --prompt TEXT              continue a text, or many
           MODEL: a run, a checkpoint or a Hugging Face folder
           [--tokens N] [--temperature X] [--top-k N] [--top-p X] [--min-p X]
           [--typical-p X] [--repetition-penalty X] [--seed N] [--pipeline N]
           [--prompt-tokens 1,2,3] [--tokenizer F] [--adapter DIR[=WEIGHT],...]
           [--weights auto|codes|numbers] [--device auto|cpu|cuda] [--dry-run]
           [--device-map auto|balanced|balanced_low_0|sequential|FILE]
           [--max-memory gpu0=SIZE,cpu=SIZE]
           --prompts FILE.jsonl -o OUT.jsonl   many prompts at a time
           [--samples N] [--chat-template F] [--texts N] [--step-tokens N] [--chunk N]
           [--block N] [--cache-bytes SIZE] [--cache-dtype T]
  chat     MODEL                            a conversation in the terminal
           [--system TEXT] [--load FILE] [--chat-template F] [--tokenizer F] [--tokens N]
           [--positions N] [--temperature X] [--top-k N] [--top-p X] [--min-p X]
           [--typical-p X] [--repetition-penalty X] [--seed N] [--pipeline N]
           [--device auto|cpu|cuda] [--weights W] [--device-map M] [--max-memory LIST]
           [--dry-run]
  evaluate MODEL DATA [--logits FILE.h5]    loss and perplexity on a file
           [--tokenizer F] [--sequence N] [--adapter DIR[=WEIGHT],...] [--pipeline N]
           [--device auto|cpu|cuda] [--weights W] [--device-map M] [--max-memory LIST]
           [--dry-run]
           --choices FILE.jsonl             how often it takes the right one of several texts
           [-o OUT.jsonl] [--no-space] [--special-tokens]
  inspect  CHECKPOINT|FOLDER|DATA|DECK      what a model, a file of data or a run consists of
           [--tensors] [--verify]           of a model: list tensors, compare digests
           [--make-views]                   what HDF5's tools see of a checkpoint
           DATA [--tokenizer F]             of a token file: documents, the first sample
           [--sequence N]
           DECK [section.key=value ...]     what a run trains on: shares, a row of a step
           [--step N] [--row N] [--ranks N] [--tokenizer F]
           DECK ... --value KEY             one value of it, for scripts
           --manifest FILE --index N --value KEY   the same of a point of a sweep
  convert  FROM TO                          a Hugging Face folder to a checkpoint, or back
           [--dtype T] [--shard-bytes N] [--quantize nf4|fp4|int8|fp8|fp8-blocks|int4]
           [--double-quantization] [--keep-experts] [--merge]
           [--merge-adapter DIR[=WEIGHT],...] [--unmerge-adapter DIR[=WEIGHT],...]
  tokenize FILES... --tokenizer F -o OUT.h5 text or JSON lines to a token file
           [--format hdf5|megatron|llmc] [--field NAME] [--end-token TEXT] [--threads N]
           --train SIZE -o tokenizer.json   make a tokenizer of that many tokens instead
           [--min-frequency N]
  encode   --tokenizer F                    lines of text to lines of token ids
           F: tokenizer.json, its folder, SentencePiece's .model or a .tiktoken
           [--json] [--no-special-tokens]
  decode   --tokenizer F                    lines of token ids, JSON arrays, to text
           [--json] [--skip-special-tokens]
  sweep    DECK [section.key=value ...]     a manifest and a job array of many runs
           [--grid key=a,b,c ...] [--list FILE] [--directory DIR] [--ranks N]
           --status FILE [--json|--csv]     the state of every point, and the best
           --resubmit FILE [--all]          how to run again what is not finished
  report   RUN|SWEEP ... [--output FILE]    a page with plots of one or more runs
           [--markdown]
  bench    [DECK [section.key=value ...]]   the machine's limits, and a deck's share of them
           [--steps N] [--quick]
           --machine OUT.toml               measures a machine file for plans
           [--products]                     also which kernel makes each of its products
  selftest                                  whether kernels, messages and steps are right here
           [--device auto|cpu|cuda] [--only PATTERN] [--list] [--fault PATTERN@RANK]
           --speed                          whether hosts are as fast as each other
           [--exclude FILE] [--below PERCENT] [--seconds N] [--quick]
  help     COMMAND                          what a command's options do, and an example
           all                              every option of every command
           deck [--markdown]                every key of a deck
           KEY                              a section of a deck, or a key
           schema|man                       JSON Schema of decks; the man page
           completion                       for bash; completion-zsh, completion-fish
  version                                   versions of the program and its libraries

Exit status: 0 done; 64 command line wrong; 65 deck, data or checkpoint content wrong;
66 input missing; 70 internal error; 71 MPI, NCCL or CUDA error; 73 cannot create output;
74 I/O error; 75 checkpoint written before a signal or time limit, run the same command
again; 78 resources do not fit the deck; 80 training diverged; 81 corruption suspected;
82 hang found; 128 + N ended by signal N.)";

// The overview without options: what each command does, and the statuses.
std::string brief_overview() {
  std::string text;
  std::istringstream lines{std::string(overview_text)};
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("Exit status"))
      text +=
          "trireme help COMMAND: its options, and an example. help deck: every key of a "
          "deck;\nhelp KEY: one of them. help all: the options of all commands.\n\n";
    if (!line.starts_with("   ")) text += line + "\n";
  }
  text.pop_back();
  return text;
}

// The keys of a section and of those in it, or a key, with its section or without.
std::vector<io::DeckKey> keys_of(const std::string& topic) {
  std::vector<io::DeckKey> keys, leaves;
  for (const io::DeckKey& key : config::deck_table()) {
    const std::string section(key.section);
    if (section == topic || section.starts_with(topic + ".") ||
        io::full_name(key) == topic)
      keys.push_back(key);
    if (key.name == topic) leaves.push_back(key);
  }
  return topic.empty() ? std::vector<io::DeckKey>() : keys.empty() ? leaves : keys;
}

// What a topic that does not exist may have meant, as a sentence with a space behind it.
std::string guess(const std::string& topic) {
  std::string nearest = nearest_command(topic);
  if (nearest.empty()) nearest = io::key_of_peers(topic);
  if (nearest.empty() && topic.find('.') != topic.npos)
    return io::unknown_key_text(topic, config::deck_table()) + " ";
  if (nearest.empty()) nearest = io::nearest_section(topic, config::deck_table());
  if (nearest.empty()) nearest = io::nearest_key(topic, config::deck_table());
  return nearest.empty() ? "" : format("did you mean '{}'? ", nearest);
}

}  // namespace

std::string_view overview() { return overview_text; }

std::string text_of_help(Arguments arguments) {
  constexpr Option options[] = {{"--markdown", false}};
  arguments.parse(
      "trireme help [COMMAND | KEY | all | deck [--markdown] | schema | man | "
      "completion | completion-zsh | completion-fish]",
      options, 0, 1);
  const std::string topic = arguments.words().empty() ? "" : arguments.words().front();
  require(topic == "deck" || !arguments.has("--markdown"), Status::command_line,
          "--markdown goes with 'trireme help deck'");
  if (topic.empty()) return brief_overview();
  if (topic == "all") return std::string(overview_text);
  if (const CommandPage* page = page_of(topic)) return std::string(page->text);
  if (const auto page = help_page(topic)) return *page;
  if (topic == "deck")
    return arguments.has("--markdown")
               ? io::describe_keys_markdown(config::deck_table())
               : io::describe_include() + "\n" + io::describe_keys(config::deck_table());
  if (topic == "include") return io::describe_include();
  const std::vector<io::DeckKey> keys = keys_of(topic);
  require(!keys.empty(), Status::command_line,
          "no help on '{}'; {}there is 'trireme help' with a command, deck, a section or "
          "key of it, schema, completion or man",
          topic, guess(topic));
  return io::describe_keys(keys);
}

int help(comm::World& world, const Arguments& arguments) {
  std::string text;
  world.agree([&] { text = text_of_help(arguments); });
  log::line(text);
  return 0;
}

}  // namespace trireme::app
