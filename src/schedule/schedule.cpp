// Schedules: which shapes are legal, where stages live, and one list per rank.
// SPDX-License-Identifier: Apache-2.0
#include "schedule/schedule.hpp"

#include <array>
#include <utility>

#include "base/error.hpp"
#include "schedule/orders.hpp"

namespace trireme::schedule {
namespace {

struct Name {
  ScheduleKind kind;
  const char* name;
};
constexpr std::array names = {
    Name{ScheduleKind::gpipe, "gpipe"},
    Name{ScheduleKind::one_f_one_b, "1f1b"},
    Name{ScheduleKind::interleaved, "interleaved"},
    Name{ScheduleKind::zb_h1, "zb_h1"},
    Name{ScheduleKind::zb_v, "zb_v"},
    Name{ScheduleKind::dualpipe_v, "dualpipe_v"},
};

Schedule order_of(const PipelineShape& shape, int rank) {
  switch (shape.kind) {
    case ScheduleKind::gpipe: return gpipe_order(shape);
    case ScheduleKind::one_f_one_b: return one_f_one_b_order(shape, rank);
    case ScheduleKind::interleaved: return interleaved_order(shape, rank);
    case ScheduleKind::zb_h1: return zb_h1_order(shape, rank);
    case ScheduleKind::zb_v: return zb_v_order(shape, rank);
    case ScheduleKind::dualpipe_v: return dualpipe_v_order(shape, rank);
  }
  fail(Status::internal, "there is no such schedule");
}

// What every rank computes, without messages.
std::vector<Schedule> orders_of(const PipelineShape& shape) {
  const std::string why = why_illegal(shape);
  require(why.empty(), "{}", why);
  std::vector<Schedule> orders;
  for (int rank = 0; rank < shape.ranks; ++rank) {
    orders.push_back(order_of(shape, rank));
    std::erase_if(orders.back(), [&](const Action& action) {
      return action.microbatch >= shape.microbatches;
    });
  }
  if (shape.kind == ScheduleKind::zb_h1) fill_weights(shape, shape.ranks, orders);
  if (shape.kind == ScheduleKind::zb_v) fill_weights(shape, 2 * shape.ranks, orders);
  return orders;
}

}  // namespace

std::string name_of(ScheduleKind kind) {
  for (const Name& name : names) {
    if (name.kind == kind) return name.name;
  }
  fail(Status::internal, "there is no such schedule");
}

std::string why_illegal(const PipelineShape& shape) {
  const std::string name = name_of(shape.kind);
  if (shape.ranks < 1) {
    return format("a pipeline needs at least 1 rank, not {}", shape.ranks);
  }
  if (shape.microbatches < 1) {
    return format("a step needs at least 1 microbatch, not {}", shape.microbatches);
  }
  if (shape.kind == ScheduleKind::interleaved) {
    return shape.chunks >= 2 ? ""
                             : format(
                                   "schedule {} needs 2 or more chunks a rank, not {}: "
                                   "with 1, use 1f1b",
                                   name, shape.chunks);
  }
  const int chunks = is_v_shaped(shape.kind) ? 2 : 1;
  return shape.chunks == chunks
             ? ""
             : format("schedule {} has {} to a rank, not {}", name,
                      chunks == 1 ? "1 chunk" : "2 chunks", shape.chunks);
}

int stages(const PipelineShape& shape) { return shape.ranks * shape.chunks; }

bool is_v_shaped(ScheduleKind kind) {
  return kind == ScheduleKind::zb_v || kind == ScheduleKind::dualpipe_v;
}

int stage_of(const PipelineShape& shape, int rank, int chunk) {
  require(rank >= 0 && rank < shape.ranks && chunk >= 0 && chunk < shape.chunks,
          "there is no chunk {} of rank {}", chunk, rank);
  if (is_v_shaped(shape.kind) && chunk == 1) return 2 * shape.ranks - 1 - rank;
  return chunk * shape.ranks + rank;
}

StagePlace place_of(const PipelineShape& shape, int stage) {
  require(stage >= 0 && stage < stages(shape), "there is no stage {} of {}", stage,
          stages(shape));
  const int chunk = stage / shape.ranks;
  if (is_v_shaped(shape.kind) && chunk == 1) return {2 * shape.ranks - 1 - stage, 1};
  return {stage % shape.ranks, chunk};
}

std::vector<Schedule> make_schedules(const PipelineShape& shape) {
  // Where backwards are in halves, two computations make a full one.
  const bool halves =
      shape.kind == ScheduleKind::zb_h1 || shape.kind == ScheduleKind::zb_v;
  return with_messages(shape, orders_of(shape), halves ? 2 : 1);
}

std::vector<Schedule> forward_schedules(const PipelineShape& shape) {
  std::vector<Schedule> orders = orders_of(shape);
  for (int rank = 0; rank < shape.ranks; ++rank) {
    Schedule& order = orders[static_cast<std::size_t>(rank)];
    if (is_v_shaped(shape.kind)) {
      order = v_forward_order(shape, rank);
    } else {
      std::erase_if(
          order, [](const Action& action) { return action.kind != ActionKind::forward; });
    }
  }
  return with_messages(shape, orders, 1);
}

std::string describe(const Action& action) {
  const char* what = action.payload == Payload::activation ? "activation" : "gradient";
  const std::string run =
      format("microbatch {}, chunk {}", action.microbatch, action.chunk);
  switch (action.kind) {
    case ActionKind::forward: return "forward of " + run;
    case ActionKind::backward: return "backward of " + run;
    case ActionKind::backward_input: return "backward_input of " + run;
    case ActionKind::backward_weight: return "backward_weight of " + run;
    case ActionKind::send:
      return format("send to rank {} of the {} of {}", action.peer, what, run);
    case ActionKind::receive:
      return format("receive from rank {} of the {} of {}", action.peer, what, run);
  }
  return "action without a meaning";
}

}  // namespace trireme::schedule
