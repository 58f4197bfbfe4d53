// Position: what a rank does, as text, and which rank is late by all ranks' texts.
// SPDX-License-Identifier: Apache-2.0
#include "comm/position.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "base/format.hpp"
#include "base/number.hpp"

namespace trireme::comm {
namespace {

constexpr std::string_view last_line = "end of position";

// Throws, as at() does, for a text that is none.
template <class T>
T number(const std::string& text) {
  return parse_number<T>(text).value();
}

// The fields of a line, which tabs part.
std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields;
  std::istringstream in(line);
  std::string field;
  while (std::getline(in, field, '\t')) fields.push_back(field);
  return fields;
}

void read_line(const std::vector<std::string>& f, Position& p) {
  if (f.at(0) == "rank") {
    p.rank = number<int>(f.at(1));
    p.host = f.at(2);
    p.phase = f.at(3);
    p.step = number<std::int64_t>(f.at(4));
    p.beat = number<std::int64_t>(f.at(5));
    p.silent = number<double>(f.at(6));
    p.allowed = number<double>(f.at(7));
    p.waiting = f.at(8) == "1";
  } else if (f.at(0) == "group") {
    p.groups.push_back({f.at(1), rank_list_from(f.at(2)), number<std::int64_t>(f.at(3))});
  } else if (f.at(0) == "call") {
    std::optional<RankList> ranks;
    if (f.at(2) != "-") ranks = rank_list_from(f.at(2));
    p.calls.push_back({f.at(1), ranks, number<std::int64_t>(f.at(3)), f.at(4),
                       f.at(5) == "-" ? "" : f.at(5), number<std::int64_t>(f.at(6)),
                       f.at(7) == "1"});
  }
}

}  // namespace

std::string write_position(const Position& p) {
  std::string text =
      format("rank\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\n", p.rank, p.host, p.phase, p.step,
             p.beat, fixed(p.silent, 3), fixed(p.allowed, 3), p.waiting ? 1 : 0);
  for (const GroupPosition& g : p.groups)
    text += format("group\t{}\t{}\t{}\n", g.name, text_of(g.ranks), g.entered);
  for (const CallPosition& c : p.calls)
    text += format("call\t{}\t{}\t{}\t{}\t{}\t{}\t{}\n", c.group,
                   c.ranks ? text_of(*c.ranks) : "-", c.sequence, c.operation,
                   c.tensor.empty() ? "-" : c.tensor, c.bytes, c.pair ? 1 : 0);
  return text + std::string(last_line) + "\n";
}

std::optional<Position> read_position(std::string_view text) try {
  std::istringstream in{std::string(text)};
  Position position;
  std::string line;
  while (std::getline(in, line)) {
    if (line == last_line) return position;
    read_line(fields_of(line), position);
  }
  return {};
} catch (const std::exception&) {
  return {};  // a text that is no position
}

namespace {

using Positions = std::span<const std::optional<Position>>;
using GroupKey = std::pair<std::string, std::optional<RankList>>;

std::string call_text(const CallPosition& call) {
  return format("{} #{}{}{}{} on axis '{}'{}", call.operation, call.sequence,
                call.tensor.empty() ? "" : " ", call.tensor,
                call.bytes > 0 ? format(" ({} bytes)", call.bytes) : std::string(),
                call.group,
                call.ranks ? " of ranks " + ranks_text(*call.ranks) : std::string());
}

std::string rank_text(Positions positions, int rank) {
  const auto at = static_cast<std::size_t>(rank);
  const bool known = at < positions.size() && positions[at].has_value();
  return format("rank {} (host {})", rank, known ? positions[at]->host : "unknown");
}

// What the judgement rests on, and whom it finds.
struct Verdict {
  std::string text;
  std::vector<int> guilty;
};

bool is_late(const std::optional<Position>& position, const GroupKey& group,
             std::int64_t sequence) {
  if (!position || !position->told) return true;
  for (const GroupPosition& g : position->groups)
    if (g.name == group.first && g.ranks == group.second) return g.entered < sequence;
  return false;
}

// Which late ranks count. A rank with GPUs may be in a collective though its host does
// not wait there.
enum class Late : std::uint8_t { in_no_collective, not_waiting, any };

bool counts(const std::optional<Position>& position, Late which) {
  if (!position || !position->told || which == Late::any) return true;
  return !position->waiting && (which == Late::not_waiting || position->calls.empty());
}

std::string names_of(Positions positions, const std::vector<int>& ranks) {
  constexpr std::size_t most = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(ranks.size(), most); ++i)
    text += (i ? ", " : "") + rank_text(positions, ranks[i]);
  if (ranks.size() > most) text += format(" and {} more", ranks.size() - most);
  return text;
}

// Ranks of `call`'s group that have not entered it and that count.
std::vector<int> late_ranks(Positions positions, const CallPosition& call, Late which) {
  std::vector<int> late;
  for (int i = 0; call.ranks && i < call.ranks->size(); ++i) {
    // Files that others can write to may name any number.
    const auto rank = static_cast<std::size_t>(call.ranks->rank(i));
    if (rank >= positions.size()) return late;
    const auto& other = positions[rank];
    if (is_late(other, {call.group, call.ranks}, call.sequence) && counts(other, which))
      late.push_back(static_cast<int>(rank));
  }
  return late;
}

// The oldest collective that ranks have entered and late ones have not. Each collective
// is judged once, however many ranks are in it.
Verdict missing(Positions positions, Late which, std::int64_t& looks) {
  std::set<std::pair<GroupKey, std::int64_t>> judged;
  for (const auto& position : positions) {
    if (!position) continue;
    for (const CallPosition& call : position->calls) {
      if (call.pair || !call.ranks) continue;
      if (!judged.insert({{call.group, call.ranks}, call.sequence}).second) continue;
      const std::vector<int> late = late_ranks(positions, call, which);
      looks += std::min<std::int64_t>(call.ranks->size(), std::ssize(positions));
      if (!late.empty())
        return {format("{} not entered {}",
                       names_of(positions, late) + (late.size() == 1 ? " has" : " have"),
                       call_text(call)),
                late};
    }
  }
  return {};
}

// One number of one group under which ranks wait for different things. The fewest are
// named first.
Verdict different(Positions positions) {
  std::map<std::pair<GroupKey, std::int64_t>, std::map<std::string, std::vector<int>>>
      all;
  for (const auto& position : positions) {
    if (!position) continue;
    for (const CallPosition& call : position->calls)
      if (!call.pair)
        all[{{call.group, call.ranks}, call.sequence}][call_text(call)].push_back(
            position->rank);
  }
  for (const auto& [where, wishes] : all) {
    if (wishes.size() < 2) continue;
    std::vector<std::pair<std::string, std::vector<int>>> list(wishes.begin(),
                                                               wishes.end());
    std::ranges::stable_sort(list, [](const auto& a, const auto& b) {
      return a.second.size() < b.second.size();
    });
    std::string text = "out of step: ";
    for (std::size_t i = 0; i < list.size(); ++i)
      text += format("{}{} in {}", i ? "; " : "", names_of(positions, list[i].second),
                     list[i].first);
    return {text, list.front().second};
  }
  return {};
}

// Ranks that wait for nobody, or tell nothing.
Verdict idle(Positions positions) {
  std::vector<int> ranks;
  for (std::size_t r = 0; r < positions.size(); ++r)
    if (!positions[r] || !positions[r]->waiting) ranks.push_back(static_cast<int>(r));
  if (ranks.empty() || ranks.size() == positions.size()) return {};
  return {names_of(positions, ranks) + (ranks.size() == 1
                                            ? " waits for no rank and does not get on"
                                            : " wait for no rank and do not get on"),
          ranks};
}

// Waiting for the sends of a rank that waits elsewhere: a circle, or a lost message.
Verdict everyone(Positions positions) {
  std::string text;
  std::size_t lines = 0;
  for (const auto& position : positions) {
    if (!position || position->calls.empty() || ++lines > 4) continue;
    text +=
        format("{}{} in {}", text.empty() ? "" : "; ",
               rank_text(positions, position->rank), call_text(position->calls.front()));
  }
  return {text.empty() ? "no rank gets on" : "ranks wait for each other: " + text, {}};
}

Verdict judge(Positions positions, std::int64_t& looks) {
  for (const Late which : {Late::in_no_collective, Late::not_waiting})
    if (Verdict v = missing(positions, which, looks); !v.text.empty()) return v;
  looks += 3 * std::ssize(positions);
  if (Verdict v = different(positions); !v.text.empty()) return v;
  if (Verdict v = missing(positions, Late::any, looks); !v.text.empty()) return v;
  if (Verdict v = idle(positions); !v.text.empty()) return v;
  return everyone(positions);
}

std::string line_of(Positions positions, int rank) {
  const auto at = static_cast<std::size_t>(rank);
  if (at >= positions.size() || !positions[at])
    return format("rank {}: has told no position", rank);
  const auto& p = positions[at];
  std::string text =
      format("{}: '{}', {} steps done, {} s without progress", rank_text(positions, rank),
             p->phase, p->step, fixed(p->silent, 1));
  if (!p->told) return text + ", stopped while it got on";
  if (p->calls.empty()) text += ", in no collective";
  for (const CallPosition& call : p->calls) {
    text += ", in " + call_text(call);
    if (&call - p->calls.data() == 3) break;
  }
  return text;
}

}  // namespace

std::string describe_hang(Positions positions, std::size_t lines, std::int64_t* looks) {
  std::int64_t looked = 0;
  const Verdict verdict = judge(positions, looked);
  if (looks != nullptr) *looks += looked;
  std::vector<int> order = verdict.guilty;
  std::vector<bool> named(positions.size());
  for (const int rank : verdict.guilty)
    if (static_cast<std::size_t>(rank) < named.size())
      named[static_cast<std::size_t>(rank)] = true;
  for (std::size_t r = 0; r < positions.size(); ++r)
    if (!named[r]) order.push_back(static_cast<int>(r));
  std::string text = verdict.text;
  for (std::size_t i = 0; i < std::min(lines, order.size()); ++i)
    text += "\n  " + line_of(positions, order[i]);
  if (order.size() > lines) text += format("\n  and {} more ranks", order.size() - lines);
  return text;
}

}  // namespace trireme::comm
