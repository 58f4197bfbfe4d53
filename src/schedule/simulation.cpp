// Simulation of pipeline schedules: each rank runs on until it must wait for another.
// SPDX-License-Identifier: Apache-2.0
#include "schedule/simulation.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <utility>

#include "base/error.hpp"

namespace trireme::schedule {
namespace {

constexpr double never = -1.0;  // of a time: it has not happened

// One end of a message: which action of which rank, when.
struct End {
  std::size_t action = 0;
  double time = 0.0;
};

// Messages from one rank to another; the i-th send meets the i-th receive.
struct Channel {
  std::vector<End> sends, receives;
  std::size_t matched = 0;
};

// What has happened to a (chunk, microbatch) of a rank.
struct Run {
  double input_ready = never, gradient_ready = never;  // arrived from another rank
  bool input_posted = false, gradient_posted = false;
  double forward = never, backward_input = never, backward_weight = never;
};

struct Rank {
  std::size_t next = 0;
  double now = 0.0;
  double arrived = never;  // of the send that blocks this rank
  bool sending = false, queued = true;
  std::vector<Run> runs;
};

class Simulator {
 public:
  Simulator(const PipelineShape& shape, const std::vector<Schedule>& schedules,
            const SimulationOptions& options);
  Simulation run();

 private:
  // False if the action has to wait; otherwise it is done and the clock moves.
  bool step(int rank);
  bool compute(int rank, const Action& action);
  double duration(int rank, const Action& action);
  bool send(int rank, const Action& action);
  void receive(int rank, const Action& action);
  void match(int from, int to);

  // When what the computation needs is there, `never` if not yet.
  double ready(int rank, const Action& action);
  double ready_forward(int rank, const Action& action);
  double ready_backward(int rank, const Action& action);

  void check(int rank, const Action& action) const;
  void check_done() const;
  void measure(int rank);
  [[noreturn]] void wrong(int rank, std::size_t action, const std::string& why) const;

  const Action& action_of(int rank, std::size_t k) const {
    return schedules_[static_cast<std::size_t>(rank)][k];
  }
  Rank& at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  Run& run_of(int rank, int chunk, std::int64_t microbatch) {
    return at(rank)
        .runs[static_cast<std::size_t>(chunk * shape_.microbatches + microbatch)];
  }
  Run& run_of(int rank, const Action& action) {
    return run_of(rank, action.chunk, action.microbatch);
  }
  RankSimulation& result(int rank) {
    return simulation_.ranks[static_cast<std::size_t>(rank)];
  }
  const StageCost& cost(int rank, int chunk) const {
    return costs_[static_cast<std::size_t>(stage_of(shape_, rank, chunk))];
  }
  // The rank waits no longer: it is looked at again.
  void wake(int rank) {
    if (!std::exchange(at(rank).queued, true)) queue_.push_back(rank);
  }

  const PipelineShape& shape_;
  const std::vector<Schedule>& schedules_;
  SimulationOptions options_;
  std::vector<StageCost> costs_;
  std::vector<Rank> ranks_;
  std::map<std::pair<int, int>, Channel> channels_;  // (from, to)
  std::deque<int> queue_;
  Simulation simulation_;
};

Simulator::Simulator(const PipelineShape& shape, const std::vector<Schedule>& schedules,
                     const SimulationOptions& options)
    : shape_(shape), schedules_(schedules), options_(options), costs_(options.stages) {
  const std::string why = why_illegal(shape);
  require(why.empty(), "{}", why);
  require(schedules.size() == static_cast<std::size_t>(shape.ranks),
          "{} schedules for {} ranks", schedules.size(), shape.ranks);
  const auto stage_count = static_cast<std::size_t>(stages(shape));
  if (costs_.empty()) costs_.resize(1);
  if (costs_.size() == 1) costs_.resize(stage_count, costs_.front());
  require(costs_.size() == stage_count, "costs of {} stages for {} stages", costs_.size(),
          stage_count);
  require(options_.actions.empty() || options_.actions.size() == schedules.size(),
          "times of {} ranks' actions for {} ranks", options_.actions.size(),
          shape.ranks);
  for (std::size_t r = 0; r < options_.actions.size(); ++r) {
    require(options_.actions[r].size() == schedules[r].size(),
            "rank {}: times of {} actions for {} actions", r, options_.actions[r].size(),
            schedules[r].size());
  }
  ranks_.resize(schedules.size());
  simulation_.ranks.resize(schedules.size());
  for (int r = 0; r < shape.ranks; ++r) {
    at(r).runs.resize(static_cast<std::size_t>(shape.chunks * shape.microbatches));
    result(r).actions.resize(schedules[static_cast<std::size_t>(r)].size());
    queue_.push_back(r);
  }
}

Simulation Simulator::run() {
  while (!queue_.empty()) {
    const int rank = queue_.front();
    queue_.pop_front();
    at(rank).queued = false;
    while (at(rank).next < result(rank).actions.size() && step(rank)) ++at(rank).next;
  }
  check_done();
  for (int r = 0; r < shape_.ranks; ++r) {
    for (const ActionTime& time : result(r).actions) {
      simulation_.total = std::max(simulation_.total, time.end);
    }
  }
  double busiest = 0.0;
  for (int r = 0; r < shape_.ranks; ++r) {
    measure(r);
    busiest = std::max(busiest, result(r).busy);
  }
  simulation_.bubble = busiest > 0.0 ? simulation_.total / busiest - 1.0 : 0.0;
  return std::move(simulation_);
}

bool Simulator::step(int rank) {
  const Action& action = action_of(rank, at(rank).next);
  check(rank, action);
  ActionTime& time = result(rank).actions[at(rank).next];
  switch (action.kind) {
    case ActionKind::receive:
      time.start = at(rank).now;
      receive(rank, action);
      break;
    case ActionKind::send:
      if (!at(rank).sending) time.start = at(rank).now;
      if (!send(rank, action)) return false;
      break;
    default:
      if (!compute(rank, action)) return false;
      return true;
  }
  time.end = at(rank).now;
  return true;
}

bool Simulator::compute(int rank, const Action& action) {
  const double input = ready(rank, action);
  if (input == never) return false;
  Rank& state = at(rank);
  Run& run = run_of(rank, action);
  const double start = std::max(state.now, input);
  state.now = start + duration(rank, action);
  switch (action.kind) {
    case ActionKind::forward: run.forward = state.now; break;
    case ActionKind::backward_input: run.backward_input = state.now; break;
    case ActionKind::backward_weight: run.backward_weight = state.now; break;
    default: run.backward_input = run.backward_weight = state.now;
  }
  result(rank).actions[state.next] = {start, state.now};
  return true;
}

// How long the rank's next action takes.
double Simulator::duration(int rank, const Action& action) {
  if (!options_.actions.empty())
    return options_.actions[static_cast<std::size_t>(rank)][at(rank).next];
  const StageCost& stage = cost(rank, action.chunk);
  switch (action.kind) {
    case ActionKind::forward: return stage.forward;
    case ActionKind::backward_input: return stage.backward_input;
    case ActionKind::backward_weight: return stage.backward_weight;
    default: return stage.backward_input + stage.backward_weight;
  }
}

double Simulator::ready(int rank, const Action& action) {
  if (action.kind == ActionKind::forward) return ready_forward(rank, action);
  if (action.kind != ActionKind::backward_weight) return ready_backward(rank, action);
  const Run& run = run_of(rank, action);
  if (run.backward_input == never)
    wrong(rank, at(rank).next, "comes before its backward");
  if (run.backward_weight != never) wrong(rank, at(rank).next, "runs twice");
  return run.backward_input;
}

double Simulator::ready_forward(int rank, const Action& action) {
  const Run& run = run_of(rank, action);
  if (run.forward != never) wrong(rank, at(rank).next, "runs twice");
  const int stage = stage_of(shape_, rank, action.chunk);
  if (stage == 0) return 0.0;
  const StagePlace from = place_of(shape_, stage - 1);
  if (from.rank != rank) {
    if (!run.input_posted) wrong(rank, at(rank).next, "has no receive posted before it");
    return run.input_ready;
  }
  const double made = run_of(rank, from.chunk, action.microbatch).forward;
  if (made == never) wrong(rank, at(rank).next, "comes before that of the stage before");
  return made;
}

double Simulator::ready_backward(int rank, const Action& action) {
  const Run& run = run_of(rank, action);
  if (run.forward == never) wrong(rank, at(rank).next, "comes before its forward");
  if (run.backward_input != never) wrong(rank, at(rank).next, "runs twice");
  const int stage = stage_of(shape_, rank, action.chunk);
  if (stage == stages(shape_) - 1) return run.forward;
  const StagePlace from = place_of(shape_, stage + 1);
  if (from.rank != rank) {
    if (!run.gradient_posted)
      wrong(rank, at(rank).next, "has no receive posted before it");
    return run.gradient_ready;
  }
  const double made = run_of(rank, from.chunk, action.microbatch).backward_input;
  if (made == never) wrong(rank, at(rank).next, "comes before that of the stage after");
  return made;
}

bool Simulator::send(int rank, const Action& action) {
  Rank& state = at(rank);
  if (!std::exchange(state.sending, true)) {
    const Run& run = run_of(rank, action);
    const bool activation = action.payload == Payload::activation;
    if ((activation ? run.forward : run.backward_input) == never) {
      wrong(rank, state.next, "comes before what it sends is made");
    }
    state.arrived = never;
    channels_[{rank, action.peer}].sends.push_back({state.next, state.now});
    match(rank, action.peer);
  }
  if (options_.sends == SendMode::blocking) {
    if (state.arrived == never) return false;
    state.now = std::max(state.now, state.arrived);
  }
  state.sending = false;
  return true;
}

void Simulator::receive(int rank, const Action& action) {
  Run& run = run_of(rank, action);
  bool& posted =
      action.payload == Payload::activation ? run.input_posted : run.gradient_posted;
  if (posted) wrong(rank, at(rank).next, "is posted twice");
  posted = true;
  channels_[{action.peer, rank}].receives.push_back({at(rank).next, at(rank).now});
  match(action.peer, rank);
}

void Simulator::match(int from, int to) {
  Channel& channel = channels_[{from, to}];
  const std::size_t i = channel.matched;
  if (i >= channel.sends.size() || i >= channel.receives.size()) return;
  ++channel.matched;
  const Action& send = action_of(from, channel.sends[i].action);
  const Action& receive = action_of(to, channel.receives[i].action);
  const bool activation = send.payload == Payload::activation;
  const int stage = stage_of(shape_, from, send.chunk) + (activation ? 1 : -1);
  if (send.payload != receive.payload || send.microbatch != receive.microbatch ||
      stage != stage_of(shape_, to, receive.chunk)) {
    wrong(to, channel.receives[i].action,
          format("meets message {} of rank {}, its {}", i, from, describe(send)));
  }
  const double sent = channel.sends[i].time, posted = channel.receives[i].time;
  const double arrived = std::max(sent, posted) + options_.latency;
  const double ready = options_.sends == SendMode::buffered
                           ? std::max(sent + options_.latency, posted)
                           : arrived;
  Run& run = run_of(to, receive);
  (activation ? run.input_ready : run.gradient_ready) = ready;
  at(from).arrived = arrived;  // only of use while this is the send it waits in
  wake(to);
  wake(from);
}

void Simulator::check(int rank, const Action& action) const {
  const bool message =
      action.kind == ActionKind::send || action.kind == ActionKind::receive;
  if (action.chunk < 0 || action.chunk >= shape_.chunks || action.microbatch < 0 ||
      action.microbatch >= shape_.microbatches ||
      (message &&
       (action.peer < 0 || action.peer >= shape_.ranks || action.peer == rank))) {
    wrong(rank, ranks_[static_cast<std::size_t>(rank)].next, "is out of range");
  }
}

void Simulator::check_done() const {
  std::string waiting;
  for (int r = 0; r < shape_.ranks; ++r) {
    const auto i = static_cast<std::size_t>(r);
    if (ranks_[i].next == schedules_[i].size()) continue;
    waiting += format("{}rank {} waits in action {}, {}", waiting.empty() ? "" : "; ", r,
                      ranks_[i].next, describe(action_of(r, ranks_[i].next)));
  }
  require(waiting.empty(), "the schedule deadlocks: {}", waiting);
  for (const auto& [ranks, channel] : channels_) {
    if (channel.sends.size() > channel.matched) {
      wrong(ranks.first, channel.sends[channel.matched].action, "is received by nobody");
    }
    if (channel.receives.size() > channel.matched) {
      wrong(ranks.second, channel.receives[channel.matched].action, "is sent by nobody");
    }
  }
}

void Simulator::measure(int rank) {
  RankSimulation& out = result(rank);
  const Schedule& schedule = schedules_[static_cast<std::size_t>(rank)];
  std::vector<std::int64_t> live(static_cast<std::size_t>(shape_.chunks));
  out.most_live_of_chunk.resize(live.size());
  double saved = 0.0, first = never, last = 0.0;
  std::int64_t all = 0;
  for (std::size_t k = 0; k < schedule.size(); ++k) {
    const ActionKind kind = schedule[k].kind;
    if (kind == ActionKind::send || kind == ActionKind::receive) continue;
    if (first == never) first = out.actions[k].start;
    last = out.actions[k].end;
    out.busy += last - out.actions[k].start;
    if (kind == ActionKind::backward_input) continue;
    const std::int64_t change = kind == ActionKind::forward ? 1 : -1;
    const auto c = static_cast<std::size_t>(schedule[k].chunk);
    all += change;
    live[c] += change;
    saved += static_cast<double>(change) * cost(rank, schedule[k].chunk).saved;
    out.most_live = std::max(out.most_live, all);
    out.most_live_of_chunk[c] = std::max(out.most_live_of_chunk[c], live[c]);
    out.most_saved = std::max(out.most_saved, saved);
  }
  out.idle_share = simulation_.total > 0.0 ? 1.0 - out.busy / simulation_.total : 0.0;
  out.idle_inside = first == never ? 0.0 : last - first - out.busy;
}

void Simulator::wrong(int rank, std::size_t action, const std::string& why) const {
  fail(Status::internal, "rank {}, action {}: {} {}", rank, action,
       describe(action_of(rank, action)), why);
}

}  // namespace

Simulation simulate(const PipelineShape& shape, const std::vector<Schedule>& schedules,
                    const SimulationOptions& options) {
  return Simulator(shape, schedules, options).run();
}

}  // namespace trireme::schedule
