// Judges the two runs of a step by what differs on which ranks.
// SPDX-License-Identifier: Apache-2.0
#include "train/rerun_check.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.hpp"
#include "base/format.hpp"
#include "base/number.hpp"
#include "comm/hosts.hpp"
#include "comm/rank_status.hpp"
#include "launch/restarts.hpp"

namespace trireme::train {
namespace {

std::string ranks_and_hosts(const std::vector<int>& some,
                            const std::vector<RerunReport>& ranks) {
  std::set<std::string> hosts;
  for (const int rank : some) hosts.insert(ranks[static_cast<std::size_t>(rank)].host);
  std::string names;
  for (const std::string& host : hosts) names += (names.empty() ? "" : ", ") + host;
  return format("{} {} ({} {})", some.size() == 1 ? "rank" : "ranks",
                comm::ranks_text(some), hosts.size() == 1 ? "host" : "hosts", names);
}

// "the loss and the gradient of lm_head.weight"
std::string what_differs(const engine::StepDifference& difference) {
  std::string text = difference.loss ? "the loss" : "";
  if (!difference.own.empty())
    text += (text.empty() ? "" : " and ") + ("the gradient of " + difference.own);
  return text;
}

// One line for rank 0: hosts and tensors have no tabs.
std::string line_of(const RerunReport& report) {
  const engine::StepDifference& difference = report.difference;
  return format("{}\t{}\t{}\t{}\t{}\t{}", report.partners, difference.loss ? 1 : 0,
                difference.compared_own ? 1 : 0, difference.own, difference.sums,
                report.host);
}

RerunReport report_of(const std::string& line) {
  std::vector<std::string> fields(1);
  for (const char letter : line) {
    if (letter == '\t')
      fields.emplace_back();
    else
      fields.back() += letter;
  }
  require(fields.size() == 6, "a report of {} fields about two runs", fields.size());
  return {{.loss = fields[1] == "1",
           .own = fields[3],
           .sums = fields[4],
           .compared_own = fields[2] == "1"},
          parse_number<int>(fields[0]).value(),
          fields[5]};
}

}  // namespace

RerunVerdict judge_reruns(std::int64_t step, const std::vector<RerunReport>& ranks) {
  std::vector<int> own, sums;
  std::map<int, int> with_partners;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const engine::StepDifference& difference = ranks[r].difference;
    if (difference.loss || !difference.own.empty()) {
      own.push_back(static_cast<int>(r));
      ++with_partners[ranks[r].partners];
    }
    if (!difference.sums.empty()) sums.push_back(static_cast<int>(r));
  }
  if (own.empty() && sums.empty()) return {};
  RerunVerdict verdict{
      format("step {}, computed twice from the same weights, came out differently: ",
             step),
      {}};
  if (own.empty()) {
    const std::string& tensor =
        ranks[static_cast<std::size_t>(sums.front())].difference.sums;
    verdict.text += format("the sum over ranks of the gradient of {} on {}", tensor,
                           ranks_and_hosts(sums, ranks));
    verdict.text +=
        ranks.front().difference.compared_own
            ? ", though what each rank had made itself is the same: a fault of memory, "
              "of the network or of the program"
            : ", which does not tell what rank computed wrongly: with "
              "health.rerun_every = 1 each rank's own gradients are compared";
    verdict.text += "; resume from the last checkpoint";
    return verdict;
  }
  // A rank that has computed with nothing of another one that differs is wrong itself.
  for (const int rank : own)
    if (with_partners[ranks[static_cast<std::size_t>(rank)].partners] == 1)
      verdict.wrong.push_back(rank);
  const std::vector<int>& named = verdict.wrong.empty() ? own : verdict.wrong;
  const engine::StepDifference& first =
      ranks[static_cast<std::size_t>(named.front())].difference;
  verdict.text += format("{} of its own microbatches, before ranks were summed, on {}",
                         what_differs(first), ranks_and_hosts(named, ranks));
  const char* const whose = named.size() == 1 ? "its" : "their";
  verdict.text +=
      verdict.wrong.empty()
          ? ": one of them computed wrongly, and the others went on with that; resume "
            "from the last checkpoint"
          : format(
                ": a fault of {} memory or processor; resume from the last "
                "checkpoint, without {} node",
                whose, whose);
  return verdict;
}

void check_reruns(comm::World& world, const comm::Mesh& mesh, std::int64_t step,
                  const engine::StepDifference& mine) {
  if (world.max(mine.any() ? 1 : 0) == 0) return;
  const bool by_experts = mesh.folding().expert > 1;
  const comm::HostTable& hosts = comm::hosts_of(world);
  const RerunReport report{mine, by_experts ? 0 : mesh.coordinate(comm::Axis::data),
                           hosts.host(world.rank())};
  std::vector<RerunReport> ranks;
  for (const std::string& line : world.gather_text(line_of(report)))
    ranks.push_back(report_of(line));
  RerunVerdict verdict;
  if (world.rank() == 0) verdict = judge_reruns(step, ranks);
  for (const int rank : verdict.wrong) launch::name_bad_host(hosts.host(rank));
  throw comm::Agreed(Status::corruption, world.broadcast(verdict.text));
}

}  // namespace trireme::train
