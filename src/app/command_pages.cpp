// The texts of `trireme help COMMAND` and `trireme COMMAND --help`.
// SPDX-License-Identifier: Apache-2.0
// A test compares their options with those that the commands parse.
#include "app/command_pages.hpp"

#include <algorithm>
#include <array>

namespace trireme::app {
namespace {

constexpr std::array pages = {
    CommandPage{"train",
                R"(usage: trireme train DECK [section.key=value ...] [--check [--ranks N]]
       trireme train --manifest FILE --index N

Trains the model that a deck describes, on the ranks that srun or mpirun started. Where the run's
directory has a checkpoint, it goes on from there: the same command starts and resumes.

  section.key=value  replaces a value of the deck; the right side is TOML, or a bare word
  --check            only checks the deck and prints what it plans
  --ranks N          with --check: for so many ranks, in place of those that were started
  --machine FILE     also predicts a step, as plan does; the end of the log says how far it was off
  --quiet            only warnings and the last lines; as --log-level warning
  --log-level L      error, warning, info (default) or debug: times of the parts of each step
  --log-dir DIR      every rank also writes what it says, with the time, to DIR/rank-00000.log ...
  --manifest FILE    a sweep's sweep.toml: one of its points is run
  --index N          which point, from 0

  mpirun -n 4 trireme train inputs/quickstart.toml run.name=try optimizer.learning_rate=1e-3)"},
    CommandPage{"plan", R"(usage: trireme plan DECK [section.key=value ...] [options]
       trireme plan FOLDER|config.json|NAME [section.key=value ...] [options]

Prints memory, traffic and FLOPs of each rank, and the schedule: made by the engine that would
train, without its memory. Needs no GPU and no other rank. Of a model (a Hugging Face folder, its
config.json alone, or a name of inputs/models such as llama-3.1-8b) a table of what inference,
adapters (LoRA) and training with each optimizer take.

  section.key=value  replaces a value of the deck
  --ranks N          for so many ranks, in place of those that were started
  --machine FILE     how long a step takes there, and a run with checkpoints and failures:
                     inputs/machines, or a file that trireme bench --machine measured
  --search           the fastest mesh, schedule, strategy, microbatch, recomputation and
                     offload that fit the machine; overrides stand, and so does
  --fix KEY[=VALUE]  a key that the search leaves alone (may be given several times)
  --grid KEY=A,B     values of another key to try (may be given several times)
  --allow precision  tries faster and smaller types, too, which change what is computed
  --top N            how many to list (default 10)
  -o FILE.toml       writes the winner, and the picture beside it
  --plot FILE.svg    writes the picture: memory against time
  --measure K        runs the best K for a few steps on the ranks that were started, and takes
                     the fastest of them

Of a model, where there is no deck:

  --sequence N       tokens of a sequence (default: what the model has, 4096 at most)
  --batch N          sequences of a step (default: one for each rank)
  --precision T      fp32, bf16, fp16 or fp8 alone (default: a row for each; for times and
                     --search the type of the weights, or bf16)

  trireme plan inputs/llama-small.toml --ranks 16 parallel.tensor=4)"},
    CommandPage{"init", R"(usage: trireme init [FOLDER|config.json|NAME|SIZE] [options]

Asks at most seven questions and writes a deck that trains, with comments: mesh, sharding and
microbatch are those of the fastest deck that fits this machine, or a machine file. Where Slurm is,
it writes a job script beside it. Options answer questions.

  --yes            asks nothing: what no option says has its default
  --model M        a Hugging Face folder, its config.json, a name of inputs/models, or a size:
                   small (default), 125m, 350m, 1.3b, 2.7b, 6.7b
  --train W        of a folder with weights: all, lora (default), or new
  --data FILES     with commas between them: text, JSON lines, folders of either, token files; or
                   synthetic (default)
  --tokenizer F    tokenizer.json, its folder, SentencePiece's .model or a .tiktoken (default:
                   that of the model's folder)
  --ranks N        (default: what Slurm gave, else a GPU or a core of this node each)
  --sequence N     tokens of a sequence (default: what the model has, 2048 at most)
  --batch N        sequences of a step
  --steps N        optimizer steps (default 1000; 200 with weights to start from)
  --machine FILE   where it will run, in place of this node: inputs/machines
  -o FILE.toml     what is written (default: the model's name)

  trireme init my-model --data notes.txt --yes)"},
    CommandPage{"generate", R"(usage: trireme generate MODEL --prompt TEXT [options]
       trireme generate MODEL --prompts FILE.jsonl -o OUT.jsonl [options]

Continues a text, token by token, or a file of texts, many at a time. MODEL is a run's directory,
a checkpoint or a Hugging Face folder; its generation_config.json says what options do not.

  --prompt TEXT           the text to continue
  --prompt-tokens LIST    its token ids in place of a text: 1,2,3; ids come out
  --prompts FILE          a JSON object a line: {"prompt": TEXT} (docs/generate.md)
  -o FILE                 what comes of --prompts; a run that was stopped goes on
  --tokenizer F           tokenizer.json, its folder, SentencePiece's .model or a .tiktoken
  --tokens N              how many tokens to add (default 100)
  --temperature X         0: always the likeliest token (default 0.8; of a folder 0)
  --top-k N               only the N likeliest tokens; 0: all of them (default 50)
  --top-p X               only the likeliest tokens that together reach X (default 1)
  --min-p X               only tokens X times as likely as the likeliest (default 0)
  --typical-p X           only the most typical tokens that reach X (default 1)
  --repetition-penalty X  of tokens that the text has (default 1)
  --seed N                another seed, another text (default 0)
  --pipeline N            stages of the model on as many ranks (default 1); the other ranks
                          split its matrices
  --adapter LIST          folders of adapters to add to the model: DIR[=WEIGHT],...
  --weights W             of a quantized folder: codes, numbers or auto, which is codes
                          unless weights are placed around a GPU (default auto)
  --device D              auto, cpu or cuda (default auto)
  --device-map M          weights on GPUs, in memory and on disk: auto, balanced,
                          balanced_low_0, sequential or a JSON file (docs/generate.md)
  --max-memory LIST       what weights may take: gpu0=20GiB,cpu=64GiB
  --dry-run               only says what would lie where

With --prompts:

  --samples N        texts for each prompt (default 1)
  --chat-template F  for messages, in place of the tokenizer's own
  --texts N          at a time (default 64)
  --step-tokens N    rows of a step (default 512, or --texts if that is more)
  --chunk N          of a prompt in a step (default 128, or --step-tokens if that is less)
  --block N          positions of a block of the cache (default 16)
  --cache-bytes S    of a rank: 4GiB (default)
  --cache-dtype T    auto (that of the weights), fp64, fp32, bf16, fp16, fp8 or int8

  trireme generate runs/quickstart --prompt "The mesh" --tokens 200)"},
    CommandPage{"chat", R"(usage: trireme chat MODEL [options]

A conversation in the terminal, by the model's chat template. Lines that end in a backslash go on
in the next one. /help lists commands: /system, /reset, /save, /load, /quit. Ctrl-C ends an
answer, not the program; Ctrl-D does.

  --system TEXT           what the system says first
  --load FILE             goes on from a conversation that /save wrote
  --chat-template F       in place of the tokenizer's own
  --tokenizer F           tokenizer.json, its folder, SentencePiece's .model or a .tiktoken
  --tokens N              of an answer at most (default 1024)
  --positions N           of the conversation at most, for which keys and values take memory
                          (default all that the model has)
  --temperature X         0: always the likeliest token (default 0.8; of a folder 0)
  --top-k N               only the N likeliest tokens; 0: all of them (default 50)
  --top-p X               only the likeliest tokens that together reach X (default 1)
  --min-p X               only tokens X times as likely as the likeliest (default 0)
  --typical-p X           only the most typical tokens that reach X (default 1)
  --repetition-penalty X  of tokens that the text has (default 1)
  --seed N                another seed, other answers (default 0)
  --pipeline N            stages of the model on as many ranks (default 1)
  --weights W             of a quantized folder: codes, numbers or auto, which is codes
                          unless weights are placed around a GPU (default auto)
  --device D              auto, cpu or cuda (default auto)
  --device-map M          as for generate, as are the next two
  --max-memory LIST       what weights may take: gpu0=20GiB,cpu=64GiB
  --dry-run               only says what would lie where

  trireme chat my-model --system "You answer in one sentence.")"},
    CommandPage{"evaluate", R"(usage: trireme evaluate MODEL DATA [options]
       trireme evaluate MODEL --choices FILE.jsonl [options]

Loss and perplexity of a model on a file, in windows of the model's sequence. MODEL as for generate.
DATA: bytes or conversations for a model of such; else a token file, or text for the tokenizer.
With --choices: how often the model takes the right one of several texts, as lm-evaluation-harness
counts it.

  --tokenizer F      of DATA that is text, in place of the run's or the model's own
  --logits FILE.h5   also writes the logits of each token
  --choices FILE     questions, a line of JSON each: context, choices, answer
  -o FILE            what comes of each question of --choices
  --no-space         of --choices: no space between context and choice
  --special-tokens   of --choices: with the tokens that the tokenizer adds, such as <s>
  --sequence N       length of the windows, or most tokens of a question and a choice, in
                     place of the model's
  --pipeline N       stages of the model on as many ranks (default 1)
  --adapter LIST     folders of adapters to add to the model: DIR[=WEIGHT],...
  --weights W        of a quantized folder: codes, numbers or auto, which is codes unless
                     weights are placed around a GPU (default auto)
  --device D         auto, cpu or cuda (default auto)
  --device-map M     weights on GPUs, in memory and on disk, as for generate
  --max-memory LIST  what weights may take: gpu0=20GiB,cpu=64GiB
  --dry-run          only says what would lie where

  mpirun -n 2 trireme evaluate runs/quickstart README.md)"},
    CommandPage{"inspect", R"(usage: trireme inspect CHECKPOINT|FOLDER|DATA|DECK [options]

Shows what is in a checkpoint, in a model's Hugging Face folder (also as a deck's [model]), in a
token file, or what a deck's run trains on: its sources' shares and a row of a step, with borders
of documents and what is no target.

  section.key=value  replaces a value of the deck
  --tensors          of a model: lists its tensors, with their digests
  --verify           of a checkpoint: only compares its digests
  --make-views       of a checkpoint: makes checkpoint.h5, where HDF5's tools see whole tensors, if
                     the run ended before it did
  --tokenizer F      writes tokens of data as text
  --sequence N       of a token file: length of the sample that is shown
  --step N           of a deck: the step (default 1)
  --row N            of a deck: the row of the step's batch (default 0)
  --ranks N          of a deck: as so many ranks would train
  --value KEY        of a deck: only writes one value, such as of run.spare_nodes
  --manifest FILE    with --index and --value: of a point of a sweep
  --index N          which point

  trireme inspect runs/quickstart/checkpoints/latest --verify)"},
    CommandPage{"convert", R"(usage: trireme convert FROM TO [options]

Makes a checkpoint of a Hugging Face folder, or a folder of a checkpoint or a run; of a run with
adapters the adapter alone, as PEFT has it. Works on any number of ranks. What is not finished is
not taken for a model; the same command goes on with it.

  --dtype T        fp32, bf16, fp16 or fp64 for all weights (default: as they are)
  --shard-bytes N  bytes of each file of weights at most (a larger tensor has a file of
                   its own)
  --quantize Q     writes a folder with weights as codes: nf4, fp4 or int8 (bitsandbytes),
                   fp8 or int4 (compressed-tensors), fp8-blocks (DeepSeek); FROM may be a
                   folder too
  --double-quantization   of nf4 and fp4: the largest magnitudes of blocks become codes too
  --keep-experts   of nf4, fp4 and int8: experts stay numbers, for transformers 5
  --merge          of a run with adapters: the whole model with them
  --merge-adapter LIST    adds adapters to the weights: DIR[=WEIGHT],...
  --unmerge-adapter LIST  takes them away again

  trireme convert runs/quickstart my-model --dtype bf16)"},
    CommandPage{"tokenize",
                R"(usage: trireme tokenize FILES... --tokenizer F -o OUT.h5 [options]
       trireme tokenize FILES... --train SIZE -o tokenizer.json [options]

Turns text, JSON lines, directories of them and what gzip or zstd packed into a token file; -
reads standard input. A run that was stopped goes on. Or makes a tokenizer from such files.

  --tokenizer F      tokenizer.json, its folder, SentencePiece's .model or a .tiktoken
  -o FILE            what is written: OUT.h5; with --format megatron OUT, of OUT.bin and
                     OUT.idx, or either name; with --format llmc OUT.bin, or OUT for it
  --format F         hdf5 (default), megatron or llmc; a name of another format is refused
  --field NAME       of JSON lines: the member that holds the text (default text)
  --end-token TEXT   the token behind each document (default: the tokenizer's)
  --threads N        of each rank (default: its share of the cores)
  --train SIZE       makes a byte-level BPE of SIZE tokens
  --min-frequency N  with --train: pairs that are met less often are not merged (default 0)

  trireme tokenize corpus/ --tokenizer tokenizer.json -o corpus.h5)"},
    CommandPage{"encode",
                R"(usage: trireme encode --tokenizer F [--json] [--no-special-tokens]

Lines of standard input to arrays of token ids, a line each.

  --tokenizer F        tokenizer.json, its folder, SentencePiece's .model or a .tiktoken
  --json               each line is a JSON string, which may hold line breaks
  --no-special-tokens  without those that the tokenizer adds, such as <s>

  echo "Hello world" | trireme encode --tokenizer tokenizer.json)"},
    CommandPage{"decode",
                R"(usage: trireme decode --tokenizer F [--json] [--skip-special-tokens]

Lines of token ids, JSON arrays, to text.

  --tokenizer F          tokenizer.json, its folder, SentencePiece's .model or a .tiktoken
  --json                 each text is a JSON string on a line of its own
  --skip-special-tokens  leaves special tokens out

  echo "[15339, 1917]" | trireme decode --tokenizer tokenizer.json)"},
    CommandPage{
        "sweep",
        R"(usage: trireme sweep DECK [section.key=value ...] [--grid key=a,b,c ...] [options]
       trireme sweep --status FILE [--json | --csv]
       trireme sweep --resubmit FILE [--all]

Writes a manifest of many runs of one deck and a Slurm job array for them; says how they stand.

  section.key=value  replaces a value of the deck in all runs
  --grid key=a,b,c   multiplies the runs by these values; may be given again
  --list FILE        runs one by one: key=value key=value on a line each
  --directory DIR    where all is written (default sweep)
  --ranks N          of each run (default: those that were started)
  --status FILE      the state of every run of a sweep.toml (or its folder), and the best
  --json             the state as JSON
  --csv              the state as a table of comma-separated values
  --resubmit FILE    how to run again what is not finished, but for runs that diverged
  --all              these, too

  trireme sweep inputs/quickstart.toml --grid optimizer.learning_rate=1e-3,3e-3 --ranks 4)"},
    CommandPage{"report",
                R"(usage: trireme report RUN|SWEEP ... [--markdown] [--output FILE]

Writes a page with plots of one or more runs, from their metrics.jsonl: one file of HTML that any
browser shows, without a server. A sweep, its directory or its sweep.toml, stands for its points.

  --markdown     a page of Markdown in its place, with the plots as SVG files beside it
  --output FILE  the page (default: report.html, or report.md, in the first run's directory);
                 Markdown where the name ends in .md; where it ends in .h5, every number of the
                 metrics as HDF5 datasets, a group for each run

  trireme report runs/a runs/b --output compare.html)"},
    CommandPage{
        "bench",
        R"(usage: trireme bench [DECK [section.key=value ...] [--products]] [--steps N] [--quick]
       trireme bench --machine OUT.toml [--quick]

Measures the machine: matrix products, memory, reductions. With a deck: which share of the product
rate its training step reaches, and where the time goes.

  section.key=value  replaces a value of the deck
  --steps N          steps to time (default 5)
  --products         also which kernel makes each product of a step, its rate there and alone, the
                     best other kernel's, and why it is slow where it is
  --machine OUT.toml measures rates, links and the file system at OUT.toml's place, and writes a
                     machine file for trireme plan --machine; CPUs only
  --quick            hardly measures: to see that it runs

  trireme bench inputs/gpt2-124m.toml precision.compute=bf16 --products)"},
    CommandPage{
        "selftest",
        R"(usage: trireme selftest [--device D] [--list] [--only PATTERN] [--fault PATTERN@RANK]
       trireme selftest --speed [--exclude FILE] [--below PERCENT] [--seconds N] [--quick] ...

Compares kernels, messages and training steps of this build on this device with what they should
give, in a minute. Ends with 81 and the rank's name where something is wrong. With --speed: measures
products, memory and messages of all ranks at once, and names hosts that are far slower than the
median, or whose memory gives back other bytes, again with 81.

  --device D            auto, cpu or cuda (default auto)
  --list                only prints the names of the checks
  --only PATTERN        only checks whose names fit; * and ? as in a shell
  --fault PATTERN@RANK  spoils a result of a rank, to see that it is found; with --speed slows it
  --speed               measures hosts, in place of checks
  --exclude FILE        writes the names of slow and wrong hosts, a line each; for sbatch --exclude
  --below PERCENT       of the median, below which a host is slow (default 80; messages 50)
  --seconds N           takes about so long (default 20)
  --quick               hardly measures: to see that it runs

  mpirun -n 2 trireme selftest --only 'attention*'
  srun --mpi=pmix --kill-on-bad-exit=1 trireme selftest --speed --exclude ./slow-hosts)"},
    CommandPage{"help",
                R"(usage: trireme help [COMMAND | SECTION | KEY | TOPIC] [--markdown]

Says what a command's options do, with an example, or what a key of a deck means.

  COMMAND     as trireme COMMAND -h
  SECTION     the keys of a section of a deck, such as optimizer
  KEY         one of them: optimizer.learning_rate, or learning_rate
  deck        every key
  all         the options of all commands
  schema      decks as a JSON Schema, for editors
  man         the manual page
  completion  for bash; completion-zsh and completion-fish for others
  --markdown  with deck: the page docs/deck.md

  trireme help parallel.tensor)"},
    CommandPage{"version",
                R"(usage: trireme version

Prints the versions of the program, of its compiler and of its libraries, as trireme -V does.

  trireme version)"}};

}  // namespace

std::span<const CommandPage> command_pages() { return pages; }

const CommandPage* page_of(std::string_view command) {
  const auto found =
      std::find_if(pages.begin(), pages.end(),
                   [&](const CommandPage& page) { return page.command == command; });
  return found == pages.end() ? nullptr : &*found;
}

}  // namespace trireme::app
