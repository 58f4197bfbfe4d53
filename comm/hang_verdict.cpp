// The judgement of a hang: summaries first, statuses where these do not tell.
// SPDX-License-Identifier: Apache-2.0
#include "comm/hang_verdict.hpp"

#include <algorithm>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/fnv.hpp"
#include "base/format.hpp"

namespace trireme::comm {
namespace {

// Up to so many ranks all statuses are read; of more, no more than so many in doubt.
constexpr int few_ranks = 256;
constexpr int most_doubts = 4096;

// Never 0.
std::uint32_t hash_of(std::string_view text) { return std::max(fnv32(text), 1U); }

std::uint32_t key_of(const CallInFlight& call) {
  return hash_of(call.group + (call.ranks ? text_of(*call.ranks) : "-"));
}

std::uint32_t number_of(const CallInFlight& call) {
  return static_cast<std::uint32_t>(call.sequence);
}

std::string call_text(const CallInFlight& call) {
  return format("{} #{}{}{}{} on axis '{}'{}", call.operation, call.sequence,
                call.tensor.empty() ? "" : " ", call.tensor,
                call.bytes > 0 ? format(" ({} bytes)", call.bytes) : std::string(),
                call.group,
                call.ranks ? " of ranks " + ranks_text(*call.ranks) : std::string());
}

// What the judgement rests on, and whom it finds.
struct Verdict {
  std::string text;
  std::vector<int> blamed;
};

// Which late ranks count. A rank with GPUs may be in a collective though its host does
// not wait there.
enum class Late : std::uint8_t { in_no_collective, not_waiting, any };

bool counts(const StatusSummary& summary, Late which) {
  if (!summary.told || which == Late::any) return true;
  return !summary.waiting && (which == Late::not_waiting || !summary.in_flight);
}

bool has_entered(const RankStatus& status, const CallInFlight& call) {
  for (const GroupProgress& g : status.groups)
    if (g.name == call.group && call.ranks && g.ranks == *call.ranks)
      return g.entered >= call.sequence;
  return true;
}

class Judge {
 public:
  Judge(const HangReports& reports, std::int64_t& looks)
      : reports_(reports), looks_(looks) {}

  Verdict verdict() {
    for (const Late which : {Late::in_no_collective, Late::not_waiting})
      if (Verdict v = missing(which); !v.text.empty()) return v;
    looks_ += 3 * std::int64_t{reports_.ranks()};
    if (Verdict v = different(); !v.text.empty()) return v;
    if (Verdict v = missing(Late::any); !v.text.empty()) return v;
    if (Verdict v = idle(); !v.text.empty()) return v;
    return everyone();
  }

  std::string rank_text(int rank) const {
    return format("rank {} (host {})", rank, reports_.host(rank));
  }

 private:
  std::string names_of(const std::vector<int>& ranks) const {
    constexpr std::size_t most = 8;
    std::string text;
    for (std::size_t i = 0; i < std::min(ranks.size(), most); ++i)
      text += (i ? ", " : "") + rank_text(ranks[i]);
    if (ranks.size() > most) text += format(" and {} more", ranks.size() - most);
    return text;
  }

  // Whether a rank that counts has not entered the call. A rank that has told nothing has
  // not.
  bool is_late(int rank, const StatusSummary& summary, const CallInFlight& call) {
    if (!summary.told) return true;
    if (summary.group == key_of(call) && summary.sequence >= number_of(call))
      return false;
    if (reports_.ranks() > few_ranks && ++doubts_ > most_doubts) return false;
    const auto status = reports_.status(rank);
    return !status || !status->told || !has_entered(*status, call);
  }

  std::vector<int> late_ranks(const CallInFlight& call, Late which) {
    std::vector<int> late;
    for (int i = 0; i < call.ranks->size(); ++i) {
      // Files that others can write to may name any number.
      const int rank = call.ranks->rank(i);
      if (rank < 0 || rank >= reports_.ranks()) return late;
      const StatusSummary summary = reports_.summary(rank);
      if (counts(summary, which) && is_late(rank, summary, call)) late.push_back(rank);
    }
    return late;
  }

  // The oldest collective that ranks have entered and late ones have not. Each collective
  // is judged once, however many ranks are in it.
  Verdict missing(Late which) {
    std::set<std::pair<std::uint32_t, std::uint32_t>> judged;
    for (int rank = 0; rank < reports_.ranks(); ++rank) {
      const StatusSummary summary = reports_.summary(rank);
      if (!summary.told || !summary.in_flight) continue;
      const bool is_new =
          summary.group != 0 && !judged.contains({summary.group, summary.sequence});
      if (!is_new && reports_.ranks() > few_ranks) continue;
      const auto status = reports_.status(rank);
      if (!status) continue;
      for (const CallInFlight& call : status->calls) {
        if (call.pair || !call.ranks) continue;
        if (!judged.insert({key_of(call), number_of(call)}).second) continue;
        const std::vector<int> late = late_ranks(call, which);
        looks_ += std::min<std::int64_t>(call.ranks->size(), reports_.ranks());
        if (!late.empty())
          return {format("{} not entered {}",
                         names_of(late) + (late.size() == 1 ? " has" : " have"),
                         call_text(call)),
                  late};
      }
    }
    return {};
  }

  // A rank in its oldest collective.
  struct WantedCall {
    std::uint32_t group = 0, sequence = 0, what = 0;
    int rank = 0;
    auto operator<=>(const WantedCall&) const = default;
    bool is_of(const WantedCall& other) const {
      return group == other.group && sequence == other.sequence;
    }
  };

  std::string text_of_wanted(const WantedCall& wanted) const {
    if (const auto status = reports_.status(wanted.rank))
      for (const CallInFlight& call : status->calls)
        if (!call.pair && key_of(call) == wanted.group &&
            number_of(call) == wanted.sequence)
          return call_text(call);
    return "another collective";
  }

  // Of ranks under one number of one group, by call; the fewest are named first.
  Verdict out_of_step(std::span<const WantedCall> wanted) const {
    std::vector<std::span<const WantedCall>> parts;
    for (std::size_t begin = 0, end = 0; begin < wanted.size(); begin = end) {
      while (end < wanted.size() && wanted[end].what == wanted[begin].what) ++end;
      parts.push_back(wanted.subspan(begin, end - begin));
    }
    std::ranges::stable_sort(
        parts, [](const auto& a, const auto& b) { return a.size() < b.size(); });
    Verdict verdict{.text = "out of step: ", .blamed = {}};
    for (std::size_t i = 0; i < parts.size(); ++i) {
      std::vector<int> ranks;
      for (const WantedCall& call : parts[i]) ranks.push_back(call.rank);
      verdict.text += format("{}{} in {}", i ? "; " : "", names_of(ranks),
                             text_of_wanted(parts[i].front()));
      if (i == 0) verdict.blamed = ranks;
    }
    return verdict;
  }

  // One number of one group under which ranks wait for different things.
  Verdict different() const {
    std::vector<WantedCall> wanted;
    for (int rank = 0; rank < reports_.ranks(); ++rank)
      if (const StatusSummary b = reports_.summary(rank); b.told && b.group != 0)
        wanted.push_back({b.group, b.sequence, b.call, rank});
    std::ranges::sort(wanted);
    for (std::size_t begin = 0, end = 0; begin < wanted.size(); begin = end) {
      while (end < wanted.size() && wanted[end].is_of(wanted[begin])) ++end;
      if (wanted[begin].what != wanted[end - 1].what)
        return out_of_step(std::span(wanted).subspan(begin, end - begin));
    }
    return {};
  }

  // Ranks that wait for nobody, or tell nothing.
  Verdict idle() const {
    std::vector<int> ranks;
    for (int rank = 0; rank < reports_.ranks(); ++rank)
      if (const StatusSummary summary = reports_.summary(rank);
          !summary.known || !summary.waiting)
        ranks.push_back(rank);
    if (ranks.empty() || std::ssize(ranks) == reports_.ranks()) return {};
    return {
        names_of(ranks) + (ranks.size() == 1 ? " waits for no rank and does not get on"
                                             : " wait for no rank and do not get on"),
        ranks};
  }

  // Waiting for the sends of a rank that waits elsewhere: a circle, or a lost message.
  Verdict everyone() const {
    std::string text;
    for (int rank = 0, named = 0; rank < reports_.ranks() && named < 4; ++rank) {
      if (!reports_.summary(rank).in_flight) continue;
      const auto status = reports_.status(rank);
      if (!status || status->calls.empty()) continue;
      ++named;
      text += format("{}{} in {}", text.empty() ? "" : "; ", rank_text(rank),
                     call_text(status->calls.front()));
    }
    return {text.empty() ? "no rank gets on" : "ranks wait for each other: " + text, {}};
  }

  const HangReports& reports_;
  std::int64_t& looks_;
  int doubts_ = 0;
};

std::string line_of(const HangReports& reports, int rank) {
  const auto p = reports.status(rank);
  if (!p) return format("rank {}: has told no status", rank);
  std::string text =
      format("rank {} (host {}{}): '{}', {} steps done, {} s without progress", rank,
             reports.host(rank), p->device.empty() ? "" : ", " + p->device, p->phase,
             p->step, fixed(p->silent, 1));
  if (!p->told) return text + ", stopped while it got on";
  if (p->calls.empty()) text += ", in no collective";
  for (const CallInFlight& call : p->calls) {
    text += ", in " + call_text(call);
    if (&call - p->calls.data() == 3) break;
  }
  return text;
}

// Statuses in memory.
class HeldStatuses final : public HangReports {
 public:
  explicit HeldStatuses(std::span<const std::optional<RankStatus>> statuses)
      : statuses_(statuses) {
    for (const auto& status : statuses)
      summaries_.push_back(status ? summary_of(*status) : StatusSummary{});
  }
  int ranks() const override { return static_cast<int>(statuses_.size()); }
  StatusSummary summary(int rank) const override { return summaries_[index(rank)]; }
  std::string host(int rank) const override {
    const bool known = index(rank) < statuses_.size() && statuses_[index(rank)];
    return known ? statuses_[index(rank)]->host : "unknown";
  }
  std::optional<RankStatus> status(int rank) const override {
    return statuses_[index(rank)];
  }

 private:
  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

  std::span<const std::optional<RankStatus>> statuses_;
  std::vector<StatusSummary> summaries_;
};

}  // namespace

StatusSummary summary_of(const RankStatus& status) {
  StatusSummary summary{.known = true,
                        .told = status.told,
                        .waiting = status.waiting,
                        .in_flight = !status.calls.empty()};
  for (const CallInFlight& call : status.calls) {
    if (call.pair) continue;
    summary.group = key_of(call);
    summary.sequence = number_of(call);
    summary.call = static_cast<std::uint16_t>(
        hash_of(format("{} {} {}", call.operation, call.tensor, call.bytes)));
    break;
  }
  return summary;
}

std::string describe_hang(const HangReports& reports, std::size_t lines,
                          std::int64_t* looks) {
  std::int64_t looked = 0;
  const Verdict verdict = Judge(reports, looked).verdict();
  if (looks != nullptr) *looks += looked;
  std::string text = verdict.text;
  std::vector<bool> named(static_cast<std::size_t>(reports.ranks()));
  std::size_t shown = 0;
  for (const int rank : verdict.blamed) {
    named[static_cast<std::size_t>(rank)] = true;
    if (shown < lines) ++shown, text += "\n  " + line_of(reports, rank);
  }
  for (int rank = 0; rank < reports.ranks() && shown < lines; ++rank)
    if (!named[static_cast<std::size_t>(rank)])
      ++shown, text += "\n  " + line_of(reports, rank);
  const auto left = static_cast<std::size_t>(reports.ranks()) - shown;
  if (left > 0) text += format("\n  and {} more ranks", left);
  return text;
}

std::string describe_hang(std::span<const std::optional<RankStatus>> statuses,
                          std::size_t lines, std::int64_t* looks) {
  return describe_hang(HeldStatuses(statuses), lines, looks);
}

}  // namespace trireme::comm
