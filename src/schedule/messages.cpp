// Puts sends and receives between the computations of a schedule.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "base/error.hpp"
#include "schedule/orders.hpp"

namespace trireme::schedule {
namespace {

// A message from one rank to another: after which of the sender's computations it is
// sent, and before which of the receiver's its receive is posted (numbers of orders).
struct Sent {
  Action send, receive;
  std::size_t made = 0, posted = 0;
};

class MessageWriter {
 public:
  MessageWriter(const PipelineShape& shape, const std::vector<Schedule>& orders,
                std::size_t ahead)
      : shape_(shape), orders_(orders), ahead_(ahead) {
    const auto runs = static_cast<std::size_t>(stages(shape) * shape.microbatches);
    for (auto& needed : needed_) needed.assign(runs, 0);
    for (int r = 0; r < shape.ranks; ++r) find_needs(r);
    for (int r = 0; r < shape.ranks; ++r) find_messages(r);
    post_in_order();
  }

  std::vector<Schedule> write() const {
    std::vector<std::vector<Schedule>> sends(orders_.size()), receives(orders_.size());
    for (std::size_t r = 0; r < orders_.size(); ++r) {
      sends[r].resize(orders_[r].size());
      receives[r].resize(orders_[r].size());
    }
    for (const auto& [ranks, messages] : channels_) {
      const auto from = static_cast<std::size_t>(ranks.first);
      const auto to = static_cast<std::size_t>(ranks.second);
      for (const Sent& sent : messages) {
        sends[from][sent.made].push_back(sent.send);
        receives[to][sent.posted].push_back(sent.receive);
      }
    }
    std::vector<Schedule> schedules(orders_.size());
    for (std::size_t r = 0; r < orders_.size(); ++r) {
      const auto append = [&](const Schedule& part) {
        schedules[r].insert(schedules[r].end(), part.begin(), part.end());
      };
      // Receives first: two ranks that send to each other must not wait for each other.
      for (std::size_t k = 0; k < orders_[r].size(); ++k) {
        append(receives[r][k]);
        if (k > 0) append(sends[r][k - 1]);
        schedules[r].push_back(orders_[r][k]);
      }
      append(sends[r].back());
    }
    return schedules;
  }

 private:
  std::size_t& needed(Payload payload, int stage, std::int64_t microbatch) {
    return needed_[payload == Payload::activation ? 0 : 1]
                  [static_cast<std::size_t>(stage * shape_.microbatches + microbatch)];
  }

  // Notes which computation of the rank uses each stage input and output gradient.
  void find_needs(int rank) {
    const Schedule& order = orders_[static_cast<std::size_t>(rank)];
    for (std::size_t k = 0; k < order.size(); ++k) {
      if (order[k].kind == ActionKind::backward_weight) continue;
      const Payload payload =
          order[k].kind == ActionKind::forward ? Payload::activation : Payload::gradient;
      needed(payload, stage_of(shape_, rank, order[k].chunk), order[k].microbatch) = k;
    }
  }

  // Notes the messages that the rank sends, in its order.
  void find_messages(int rank) {
    const Schedule& order = orders_[static_cast<std::size_t>(rank)];
    for (std::size_t k = 0; k < order.size(); ++k) {
      const Action& action = order[k];
      if (action.kind == ActionKind::backward_weight) continue;
      const bool forward = action.kind == ActionKind::forward;
      const Payload payload = forward ? Payload::activation : Payload::gradient;
      const int stage = stage_of(shape_, rank, action.chunk) + (forward ? 1 : -1);
      if (stage < 0 || stage == stages(shape_)) continue;
      const StagePlace to = place_of(shape_, stage);
      if (to.rank == rank) continue;
      const std::size_t need = needed(payload, stage, action.microbatch);
      channels_[{rank, to.rank}].push_back(
          {{ActionKind::send, action.microbatch, action.chunk, payload, to.rank},
           {ActionKind::receive, action.microbatch, to.chunk, payload, rank},
           k,
           need - std::min(need, ahead_)});
    }
  }

  // A message may overtake none before it: its receive waits for no later one's need.
  void post_in_order() {
    for (auto& [ranks, messages] : channels_) {
      for (std::size_t i = messages.size(); i-- > 1;) {
        messages[i - 1].posted = std::min(messages[i - 1].posted, messages[i].posted);
      }
    }
  }

  const PipelineShape& shape_;
  const std::vector<Schedule>& orders_;
  std::size_t ahead_;
  std::array<std::vector<std::size_t>, 2> needed_;
  std::map<std::pair<int, int>, std::vector<Sent>> channels_;  // (from, to)
};

}  // namespace

std::vector<Schedule> with_messages(const PipelineShape& shape,
                                    const std::vector<Schedule>& orders,
                                    std::size_t ahead) {
  return MessageWriter(shape, orders, ahead).write();
}

}  // namespace trireme::schedule
