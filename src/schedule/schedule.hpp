// A pipeline schedule is data: what each pipeline rank does in a step, in order.
// SPDX-License-Identifier: Apache-2.0
//
// p ranks hold v chunks each of a model that is cut into S = p v stages; a step has m
// microbatches. r: rank, c: chunk, s: stage.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme::schedule {

// `backward` makes input and weight gradients together; a zero-bubble schedule runs
// `backward_input` and, later, `backward_weight`. `receive` posts a receive and `send`
// starts a send: both return at once.
enum class ActionKind : std::uint8_t {
  forward,
  backward,
  backward_input,
  backward_weight,
  send,
  receive
};

// What a message carries: a stage's output on its way to the next stage, or the gradient
// of a stage's input on its way to the previous one.
enum class Payload : std::uint8_t { activation, gradient };

// One thing a rank does. `chunk` is always one of this rank's: the one that runs, whose
// result is sent, or that will use what is received. `payload` and `peer` (a pipeline
// rank) have a meaning for send and receive only.
struct Action {
  ActionKind kind = ActionKind::forward;
  std::int64_t microbatch = 0;
  int chunk = 0;
  Payload payload = Payload::activation;
  int peer = 0;
  bool operator==(const Action&) const = default;
};

using Schedule = std::vector<Action>;

enum class ScheduleKind : std::uint8_t {
  gpipe,        // all forwards, then all backwards (Huang et al., 2019)
  one_f_one_b,  // (Narayanan et al., 2019)
  interleaved,  // 1F1B over several chunks a rank (Narayanan et al., 2021)
  zb_h1,        // 1F1B with deferred weight gradients (Qi et al., 2023)
  zb_v,         // two chunks in a V, deferred weight gradients (Qi et al., 2024)
  dualpipe_v    // DualPipe cut in half: two chunks in a V (DeepSeek, 2025)
};

// The deck's word for a schedule: "gpipe", "1f1b", "interleaved", "zb_h1", "zb_v",
// "dualpipe_v".
std::string name_of(ScheduleKind kind);

// Whether weights' gradients are made apart from, and later than, those of inputs.
constexpr bool defers_weights(ScheduleKind kind) {
  using enum ScheduleKind;
  return kind == zb_h1 || kind == zb_v || kind == dualpipe_v;
}

struct PipelineShape {
  ScheduleKind kind = ScheduleKind::one_f_one_b;
  int ranks = 1;
  int chunks = 1;
  std::int64_t microbatches = 1;
};

// Why there is no such schedule, as a sentence with the fix; empty if there is one. Any
// numbers of ranks and microbatches from 1 are legal. Only chunks are restricted: 1 for
// gpipe, 1f1b and zb_h1; 2 for zb_v and dualpipe_v; 2 or more for interleaved.
std::string why_illegal(const PipelineShape& shape);

// The number of stages, p v.
int stages(const PipelineShape& shape);

// True if chunk 1 runs back through the ranks (zb_v, dualpipe_v), so that the last rank
// holds both sides of the turn and rank 0 holds the first and the last stage.
bool is_v_shaped(ScheduleKind kind);

// The stage that is chunk c of rank r: c p + r, or in a V: r and 2 p - 1 - r.
int stage_of(const PipelineShape& shape, int rank, int chunk);

struct StagePlace {
  int rank = 0;
  int chunk = 0;
  bool operator==(const StagePlace&) const = default;
};

// Where a stage lives: the inverse of stage_of.
StagePlace place_of(const PipelineShape& shape, int stage);

// The schedule of every rank, messages included.
//
// Compute: each (chunk, microbatch) runs forward once, then backward once or both of
// backward_input and backward_weight. Within a chunk each of these runs in ascending
// order of microbatches, so that weight gradients are added up in the same order by every
// schedule. A schedule whose published form needs more microbatches than there are, or a
// multiple of p, is made for such a number and the surplus microbatches are left out:
// data flows only within a microbatch, so what is left is legal and needs no more memory.
//
// Messages: stages on one rank hand over in memory, without a message. Messages from rank
// a to rank b carry no tags and match in order; a sends each as soon as it is made, and b
// posts its receives in that order, each before the compute action that precedes the one
// that needs it (where backwards are in halves, the second but one), or earlier where a
// later message needs it. Nothing deadlocks, even if every send blocks until the matching
// receive is posted: an executor may wait for a send whenever it likes after its start.
// So one buffer for input gradients on their way is enough to be correct. Outputs on
// their way need none: they are kept, and the backward that ends that comes after their
// arrival.
//
// Throws Error(internal) if why_illegal(shape). Cost: O(p v m).
std::vector<Schedule> make_schedules(const PipelineShape& shape);

// Forwards alone, for validation: in the order of make_schedules, in a V each rank's two
// chunks in turn. Outputs are not kept for a backward here, so wait for a send before its
// buffer is used again.
std::vector<Schedule> forward_schedules(const PipelineShape& shape);

// What an executor keeps of a (chunk, microbatch), and from when to when. End of backward
// means backward or backward_weight, or forward where a microbatch has no backward.
enum class Lifetime : std::uint8_t {
  input,    // input of the stage: from posting its receive, else forward, to the end of
            // backward, and to the start of the send of its gradient, which lies there
  saved,    // saved activations: from forward to the end of backward; this is what is
            // published as a schedule's activation memory
  gradient  // received gradient of the output: from posting its receive to the end of
            // backward or backward_input
};

// The most microbatches of a chunk that are alive at once.
std::int64_t most_live(const Schedule& schedule, int chunk, Lifetime lifetime);

// most_live(input): slots, if input and saved activations of a microbatch share one. Up
// to one or two more than most_live(saved), since receives are posted ahead.
std::int64_t live_slots(const Schedule& schedule, int chunk);

// most_live(gradient): buffers for gradients that come from another rank.
std::int64_t gradient_receive_slots(const Schedule& schedule, int chunk);

// A slot in [0, most_live) for each microbatch of the chunk, by number of microbatch: the
// lowest that is free when its life begins. -1 for a microbatch that has no such life.
std::vector<std::int64_t> assign_slots(const Schedule& schedule, int chunk,
                                       Lifetime lifetime);

// For a message about an error: "forward of microbatch 3, chunk 1".
std::string describe(const Action& action);

// The largest number of (chunk, microbatch) that are between forward and the end of
// backward at once.
std::int64_t live_microbatches(const Schedule& schedule);

}  // namespace trireme::schedule
