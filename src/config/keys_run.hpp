// Keys of the deck: the run, its data and its batches.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "config/section.hpp"

namespace trireme::config {

struct RunKeys : Section {
  constexpr RunKeys() : Section("run") {}

  String name{*this,
              "name",
              "\"run\"",
              "",
              "Name of the run, for logs and plots.",
              sets<&RunConfig::run, &RunSettings::name>};
  String directory{
      *this,
      "directory",
      "\"\"",
      "",
      "Where the run writes: metrics, checkpoints, deck; empty: runs/<run.name>.",
      sets<&RunConfig::run, &RunSettings::directory>};
  Integer steps{*this,
                "steps",
                "steps",
                "",
                within(1, most_steps),
                "Optimizer steps to train for.",
                sets<&RunConfig::run, &RunSettings::steps>};
  Integer seed{*this,
               "seed",
               "",
               "1",
               within(0, unbounded),
               "Seed of initial weights, sample order and synthetic data.",
               sets<&RunConfig::run, &RunSettings::seed>};
  Choice<DeviceChoice> device{
      *this,
      "device",
      "\"auto\"",
      {{"auto", DeviceChoice::automatic},
       {"cpu", DeviceChoice::cpu},
       {"cuda", DeviceChoice::cuda}},
      "Where to compute: cpu, cuda (a GPU for each rank), or auto: GPUs where the "
      "program was built for them and every rank's node has one, else the CPU.",
      sets<&RunConfig::run, &RunSettings::device>};
  Boolean share_gpus{*this, "share_gpus", "false",
                     "Let several ranks of a node compute on one GPU, for tests: slow.",
                     sets<&RunConfig::run, &RunSettings::share_gpus>};
  Boolean cuda_graphs{
      *this, "cuda_graphs", "false",
      "Record the kernels of a microbatch once and launch them as CUDA graphs: "
      "gains where kernels are short. Tensor and context ranks, and sharded gradients or "
      "weights, need comm.backend = \"nccl\"; not with experts.",
      sets<&RunConfig::run, &RunSettings::cuda_graphs>};
  Boolean gemm_search{
      *this, "gemm_search", "false",
      "On a GPU: time the library's first proposals for each kind of product and keep "
      "the fastest, which may differ from run to run and with it the order of sums.",
      sets<&RunConfig::run, &RunSettings::gemm_search>};
  Bytes logits_bytes{
      *this,
      "logits_bytes",
      "bytes",
      "0",
      within(0, 0x1p40),
      "Logits are made in chunks of at most this size, in the type that precision.logits "
      "gives them; 0: 128 MiB on a CPU, on a GPU the largest power of two up to a 56th "
      "of its memory, 1 GiB for 80 GB and where that is not known.",
      sets<&RunConfig::run, &RunSettings::logits_bytes>};
  Integer threads{*this,
                  "threads",
                  "",
                  "0",
                  within(0, 4096),
                  "Threads of each rank; 0: the node's cores shared out over its ranks.",
                  sets<&RunConfig::run, &RunSettings::threads>};
  Seconds time_limit{
      *this,
      "time_limit",
      "seconds",
      "0",
      within(0, 1e9),
      "Stop with a checkpoint before this much time has passed; 0: no limit.",
      sets<&RunConfig::run, &RunSettings::time_limit>};
  Integer spare_nodes{*this,
                      "spare_nodes",
                      "nodes",
                      "0",
                      within(0, 1e6),
                      "Nodes of the job that only take the place of nodes that fail. Job "
                      "scripts read it; "
                      "their TRIREME_SPARE_NODES goes before."};
};

struct DataKeys : Section {
  constexpr DataKeys() : Section("data") {}

  Choice<io::SourceKind> source{
      *this,
      "source",
      "\"bytes\"",
      {{"bytes", io::SourceKind::bytes},
       {"tokens", io::SourceKind::tokens},
       {"megatron", io::SourceKind::megatron},
       {"llmc", io::SourceKind::llmc},
       {"text", io::SourceKind::text},
       {"chat", io::SourceKind::chat},
       {"preference", io::SourceKind::preference},
       {"blend", io::SourceKind::blend},
       {"synthetic", io::SourceKind::synthetic}},
      "bytes: files as they are; tokens: HDF5 files with a dataset tokens; megatron: "
      "pairs .bin and .idx of Megatron-LM; llmc: token files of llm.c; text: text files "
      "and JSON lines, tokenized at the start; chat: conversations in JSON lines, "
      "through the chat template; preference: pairs of answers in JSON lines, for "
      "train.objective = \"dpo\"; blend: those of data.blend; synthetic: a Markov chain "
      "of known entropy."};
  Strings paths{
      *this, "paths", "[]",
      "Files to train on, or globs such as docs/*.md; relative ones are relative "
      "to the current directory; empty for synthetic."};
  Strings validation_paths{*this, "validation_paths", "[]",
                           "Files to validate on, as data.paths; empty for synthetic."};
  Strings blend{
      *this, "blend", "[]",
      "Parts of a blend, each a weight, a kind of source and a file or glob: "
      "[\"0.7 tokens web/*.h5\", \"0.3 megatron code/*.bin\"]. Each part has epochs and "
      "an order of its own; turns are those of Megatron-LM."};
  Choice<std::optional<io::SourceKind>> validation_source{
      *this,
      "validation_source",
      "\"auto\"",
      {{"auto", std::nullopt},
       {"bytes", io::SourceKind::bytes},
       {"tokens", io::SourceKind::tokens},
       {"megatron", io::SourceKind::megatron},
       {"llmc", io::SourceKind::llmc},
       {"text", io::SourceKind::text},
       {"chat", io::SourceKind::chat},
       {"preference", io::SourceKind::preference}},
      "Kind of data.validation_paths; auto: as data.source, but tokens for a blend."};
  Choice<io::Packing> packing{
      *this,
      "packing",
      "\"none\"",
      {{"none", io::Packing::none},
       {"concatenate", io::Packing::concatenate},
       {"best_fit", io::Packing::best_fit}},
      "none: a sample is one text, across the ends of documents; concatenate: each of "
      "its documents counts positions from 0, sees only itself, and ends without a "
      "target; best_fit: the same with documents that are whole unless they are longer "
      "than a row, whose end is padded."};
  Integer end_token{*this,
                    "end_token",
                    "",
                    "-1",
                    within(-1, 0x1p31 - 1),
                    "The token that ends documents, for data.packing; -1: what token "
                    "files, the tokenizer or bytes say."};
  Real fim_rate{*this,
                "fim_rate",
                "",
                "0.0",
                within(0, 1),
                "Share of documents that are trained on with their middle last "
                "(fill-in-the-middle); "
                "validation has none."};
  Real fim_spm{*this,
               "fim_spm",
               "",
               "0.5",
               within(0, 1),
               "Of these documents, the share that has the suffix before the prefix."};
  Strings fim_tokens{
      *this, "fim_tokens", "[\"<|fim_prefix|>\", \"<|fim_suffix|>\", \"<|fim_middle|>\"]",
      "Tokens of data.tokenizer before the prefix, the suffix and the middle."};
  String tokenizer{*this, "tokenizer", "\"\"", "",
                   "Tokenizer of text: a tokenizer.json, a SentencePiece .model, a "
                   ".tiktoken file or a folder with one. With token files: they must "
                   "have been made by it, if they say."};
  Choice<io::LossOn> loss_on{
      *this,
      "loss_on",
      "\"auto\"",
      {{"auto", io::LossOn::automatic},
       {"all", io::LossOn::all},
       {"completion", io::LossOn::completion},
       {"assistant", io::LossOn::assistant}},
      "What is learned of chat: auto: completions where there are any, else everything; "
      "assistant: what the assistant wrote, by {% generation %} of the template or by "
      "what each turn adds to those before it."};
  String chat_template{
      *this, "chat_template", "\"\"", "",
      "A file with the template of chat, instead of that of the tokenizer's folder."};
  String template_date{
      *this, "template_date", "\"\"", "",
      "The date that templates which ask for it are told, as \"2026-01-31\"."};
  Strings skip_steps{
      *this, "skip_steps", "[]",
      "Steps whose samples are not trained on, such as [\"1200-1210\", \"1300\"]: "
      "weights stay as they are, the order of the samples and the learning rate go on."};
};

struct AttentionKeys : Section {
  constexpr AttentionKeys() : Section("attention") {}

  Choice<AttentionChoice> library{
      *this,
      "library",
      "\"auto\"",
      {{"auto", AttentionChoice::automatic},
       {"cudnn", AttentionChoice::cudnn},
       {"own", AttentionChoice::own}},
      "Who does causal attention of whole sequences on a GPU in bf16 and fp16: cudnn "
      "(an error where it cannot), own kernels, or auto: cuDNN from Hopper on where it "
      "is built in and can, else own kernels.",
      sets<&RunConfig::run, &RunSettings::attention>};
  Boolean deterministic{
      *this, "deterministic", "true",
      "Take only kernels of attention that add in a fixed order; false: cuDNN's backward "
      "may add in any, with less memory, and also after compute capability 9: bits of a "
      "repeated run then differ. Own kernels and CPUs always have a fixed order.",
      sets<&RunConfig::run, &RunSettings::attention_deterministic>};
};

struct BatchKeys : Section {
  constexpr BatchKeys() : Section("batch") {}

  Integer global{
      *this,
      "global",
      "sequences",
      "",
      within(1, 1e9),
      "Sequences per step over all ranks: a multiple of batch.micro, and at least one "
      "microbatch for each data rank.",
      sets<&RunConfig::batch, &BatchSettings::global>};
  Integer micro{*this,
                "micro",
                "sequences",
                "1",
                within(1, 1e9),
                "Sequences of one forward and backward pass of one data rank.",
                sets<&RunConfig::batch, &BatchSettings::micro>};
  Strings ramp{
      *this, "ramp", "[]",
      "Smaller numbers of sequences per step at the beginning, each until so many tokens "
      "are trained on: [\"64 until 2B\", \"128 until 10B\"]; then batch.global."};
  Strings sequence_ramp{*this, "sequence_ramp", "[]",
                        "Shorter texts at the beginning: [\"512 until 2B\"] cuts "
                        "sequences after 512 tokens each, where attention and positions "
                        "begin anew; a step has as many tokens."};
};

namespace key {
inline constexpr RunKeys run;
inline constexpr DataKeys data;
inline constexpr BatchKeys batch;
inline constexpr AttentionKeys attention;
}  // namespace key

}  // namespace trireme::config
