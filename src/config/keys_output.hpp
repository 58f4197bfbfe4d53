// Keys of the deck: checkpoints, metrics, health and debugging.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "config/fault.hpp"
#include "config/section.hpp"

namespace trireme::config {

// A setting of what is done about steps.
template <auto member>
inline constexpr auto of_steps = sets<&RunConfig::health, &HealthSettings::steps, member>;

struct CheckpointKeys : Section {
  constexpr CheckpointKeys() : Section("checkpoint") {}

  Integer every{*this,
                "every",
                "steps",
                "0",
                within(0, most_steps),
                "Steps between checkpoints; 0: one at the end only.",
                sets<&RunConfig::checkpoint, &CheckpointSettings::every>};
  Boolean at_end{
      *this, "at_end", "true",
      "Write one when run.steps are done; false: for benchmarks. A signal or a "
      "time limit saves in any case.",
      sets<&RunConfig::checkpoint, &CheckpointSettings::at_end>};
  Integer keep{*this,
               "keep",
               "checkpoints",
               "2",
               within(0, 1e6),
               "How many of the newest are kept; 0: all.",
               sets<&RunConfig::checkpoint, &CheckpointSettings::keep>};
  Integer keep_every{
      *this,
      "keep_every",
      "steps",
      "0",
      within(0, most_steps),
      "Checkpoints of multiples of this many steps are kept for ever; 0: none.",
      sets<&RunConfig::checkpoint, &CheckpointSettings::keep_every>};
  Integer keep_best{
      *this,
      "keep_best",
      "checkpoints",
      "0",
      within(0, 1e6),
      "How many of those with the lowest validation loss are kept beside the newest; the "
      "link checkpoints/best names the first. Those count that are written at a step "
      "with a validation; 0: none.",
      sets<&RunConfig::checkpoint, &CheckpointSettings::keep_best>};
  Integer ranks_per_file{
      *this,
      "ranks_per_file",
      "ranks",
      "1",
      within(1, 1e6),
      "How many ranks next to each other write one file, one after the other: fewer "
      "files, for file systems that many slow down; with async each takes a step more.",
      sets<&RunConfig::checkpoint, &CheckpointSettings::ranks_per_file>};
  Boolean async{
      *this, "async", "false",
      "Write a copy while training goes on; the copy takes as much memory of the "
      "host as the rank writes.",
      sets<&RunConfig::checkpoint, &CheckpointSettings::async>};
  String resume{
      *this,
      "resume",
      "\"auto\"",
      "",
      "auto: go on from the newest checkpoint if there is one; never: start anew; "
      "or the path of a checkpoint.",
      sets<&RunConfig::checkpoint, &CheckpointSettings::resume>};
  Choice<bool> load{
      *this,
      "load",
      "\"all\"",
      {{"all", false}, {"one", true}},
      "Who reads a checkpoint: every rank its part, or one rank, which hands each "
      "tensor out.",
      sets<&RunConfig::checkpoint, &CheckpointSettings::one_reads>};
  Boolean load_on_mesh_change{
      *this, "load_on_mesh_change", "true",
      "Allow resuming from a checkpoint that another mesh wrote.",
      sets<&RunConfig::checkpoint, &CheckpointSettings::load_on_mesh_change>};
  Integer partner{
      *this,
      "partner",
      "steps",
      "0",
      within(0, most_steps),
      "Steps between copies of each rank's shard in the memory of its own node and of "
      "another, from which a job that lost a node goes on; 0: none.",
      sets<&RunConfig::checkpoint, &CheckpointSettings::partner>};
  String partner_directory{
      *this,
      "partner_directory",
      "\"/dev/shm\"",
      "",
      "Where a node keeps these copies, in memory or on a disk of its own; $NAME at its "
      "beginning stands for that environment variable of each rank.",
      sets<&RunConfig::checkpoint, &CheckpointSettings::partner_directory>};
};

struct MetricsKeys : Section {
  constexpr MetricsKeys() : Section("metrics") {}

  Integer every{*this,
                "every",
                "steps",
                "1",
                within(1, most_steps),
                "Steps between printed lines; metrics.jsonl has every step.",
                sets<&RunConfig::metrics, &MetricsSettings::every>};
  Boolean tensorboard{
      *this, "tensorboard", "false",
      "Write TensorBoard event files into run.directory: as \"tensorboard\" in "
      "metrics.trackers.",
      sets<&RunConfig::metrics, &MetricsSettings::tensorboard>};
  Strings trackers{
      *this, "trackers", "[]",
      "What else writes the metrics down, in its own form: tensorboard (event files), "
      "wandb (offline runs of Weights & Biases), mlflow (a file store). One that fails "
      "is left out with a warning.",
      sets<&RunConfig::metrics, &MetricsSettings::trackers>};
  String tracker_directory{
      *this,
      "tracker_directory",
      "\"\"",
      "",
      "The folder that wandb/ and mlruns/ are made in, which many runs may share; "
      "empty: run.directory.",
      sets<&RunConfig::metrics, &MetricsSettings::tracker_directory>};
  Seconds heartbeat{
      *this,
      "heartbeat",
      "seconds",
      "60",
      within(0, 1e9),
      "A step that takes longer has a line in the log each time that so long has "
      "passed; 0: none.",
      sets<&RunConfig::metrics, &MetricsSettings::heartbeat>};
  Integer validate_every{*this,
                         "validate_every",
                         "steps",
                         "0",
                         within(0, most_steps),
                         "Steps between validations; 0: none.",
                         sets<&RunConfig::metrics, &MetricsSettings::validate_every>};
  Integer validate_sequences{
      *this,
      "validate_sequences",
      "sequences",
      "64",
      within(0, 1e12),
      "Sequences of one validation; 0: all there are.",
      sets<&RunConfig::metrics, &MetricsSettings::validate_sequences>};
  Integer sample_every{
      *this,
      "sample_every",
      "steps",
      "0",
      within(0, most_steps),
      "Steps between texts that the model writes into the log, metrics.jsonl and "
      "TensorBoard; 0: none.",
      sets<&RunConfig::metrics, &MetricsSettings::sample_every>};
  Strings sample_prompts{*this, "sample_prompts", "[]",
                         "Beginnings of these texts, with metrics.sample_every.",
                         sets<&RunConfig::metrics, &MetricsSettings::sample_prompts>};
  Integer sample_tokens{
      *this,
      "sample_tokens",
      "tokens",
      "48",
      within(1, 1e6),
      "Most tokens of such a text; each costs the forward of a microbatch.",
      sets<&RunConfig::metrics, &MetricsSettings::sample_tokens>};
  Real sample_temperature{
      *this,
      "sample_temperature",
      "",
      "0.0",
      within(0, 1e6),
      "0: the likeliest token each time; above: drawn from softmax(logits / "
      "temperature) by run.seed and the step.",
      sets<&RunConfig::metrics, &MetricsSettings::sample_temperature>};
  String profile{
      *this,
      "profile",
      "\"\"",
      "",
      "Steps, and after '@' ranks, whose phases, actions, kernels and collectives are "
      "written to profile/step-XXXXXXXX/rank-XXXX.json, a trace for Perfetto: "
      "\"10-12@0,3\"; without '@' rank 0, \"@all\" every rank; empty: none.",
      sets<&RunConfig::metrics, &MetricsSettings::profile>};
};

struct HealthKeys : Section {
  constexpr HealthKeys() : Section("health") {}

  Choice<StepRules::Reaction> nan{
      *this,
      "nan",
      "\"stop\"",
      {{"stop", StepRules::Reaction::stop}, {"skip", StepRules::Reaction::skip}},
      "What to do when loss or gradient is not finite, or too large to be used: "
      "stop the run, or skip the step.",
      of_steps<&StepRules::nan>};
  Seconds watchdog_seconds{
      *this,
      "watchdog_seconds",
      "seconds",
      "0",
      within(0, 1e9),
      "Time without any progress of any rank that ends the job with status 82 and "
      "a report; 0: no watch.",
      sets<&RunConfig::health, &HealthSettings::watchdog_seconds>};
  Real slow_factor{
      *this,
      "slow_factor",
      "",
      "5.0",
      within(1, 1e6),
      "How many times watchdog_seconds the slow phases may take: the start, the "
      "first step, a checkpoint.",
      sets<&RunConfig::health, &HealthSettings::slow_factor>};
  Integer skip_limit{
      *this,
      "skip_limit",
      "steps",
      "10",
      within(0, most_steps),
      "Skipped steps, of the last skip_window, beyond which the run ends with "
      "status 80.",
      of_steps<&StepRules::skip_limit>};
  Integer skip_window{*this,
                      "skip_window",
                      "steps",
                      "100",
                      within(1, most_steps),
                      "Steps over which skipped ones are counted.",
                      of_steps<&StepRules::skip_window>};
  Choice<StepRules::Reaction> spike{
      *this,
      "spike",
      "\"off\"",
      {{"off", StepRules::Reaction::off},
       {"skip", StepRules::Reaction::skip},
       {"stop", StepRules::Reaction::stop}},
      "What to do when loss or gradient norm jumps: nothing, skip the step, or "
      "stop the run with status 80.",
      of_steps<&StepRules::spike>};
  Real spike_threshold{
      *this,
      "spike_threshold",
      "",
      "6.0",
      above(0, 1e6),
      "Standard deviations above the mean of the last spike_window sound steps "
      "that make a spike.",
      of_steps<&StepRules::spike_threshold>};
  Integer spike_window{
      *this,
      "spike_window",
      "steps",
      "128",
      within(2, 1e6),
      "Sound steps that a spike is judged by; before there are as many, none is.",
      of_steps<&StepRules::spike_window>};
  Integer check_replicas_every{
      *this,
      "check_replicas_every",
      "steps",
      "0",
      within(0, most_steps),
      "Steps between comparisons of what several ranks hold alike; a difference "
      "ends the job with status 81; 0: never.",
      sets<&RunConfig::health, &HealthSettings::check_replicas_every>};
  Boolean rerun{
      *this, "rerun", "true",
      "Compute a step that is not sound a second time from the same weights, before it "
      "is skipped or ends the run: if it comes out differently a device is wrong, and "
      "the job ends with status 81. On CPUs; not with precision.error_feedback.",
      sets<&RunConfig::health, &HealthSettings::rerun>};
  Integer rerun_every{
      *this,
      "rerun_every",
      "steps",
      "0",
      within(0, most_steps),
      "Steps between those that are computed twice though they are sound, and compared "
      "bit by bit, each rank's own gradients too; 0: none. On CPUs.",
      sets<&RunConfig::health, &HealthSettings::rerun_every>};
};

struct DebugKeys : Section {
  constexpr DebugKeys() : Section("debug") {}

  Boolean check_collectives{
      *this, "check_collectives", "false",
      "Compare operation, type, count and number over the group before each "
      "collective; a difference ends the job with status 82. Slow.",
      sets<&RunConfig::debug, &DebugSettings::check_collectives>};
  Integers dump_gradients{
      *this,
      "dump_gradients",
      "steps",
      "[]",
      within(1, most_steps),
      "Steps whose unclipped gradients are written to gradients/step-XXXXXXXX.h5.",
      sets<&RunConfig::debug, &DebugSettings::dump_gradients>};
  Integers dump_samples{
      *this,
      "dump_samples",
      "steps",
      "[]",
      within(1, most_steps),
      "Steps whose samples are listed in samples/step-XXXXXXXX.jsonl: for each "
      "sequence its rank, microbatch, number in the source, file and place.",
      sets<&RunConfig::debug, &DebugSettings::dump_samples>};
  String fault{*this, "fault",   "\"\"",
               "",    fault_doc, sets<&RunConfig::debug, &DebugSettings::fault>};
};

namespace key {
inline constexpr CheckpointKeys checkpoint;
inline constexpr MetricsKeys metrics;
inline constexpr HealthKeys health;
inline constexpr DebugKeys debug;
}  // namespace key

}  // namespace trireme::config
