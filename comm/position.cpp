// Position: what a rank does, as text, and which rank is late by all ranks' texts.
// SPDX-License-Identifier: Apache-2.0
#include "comm/position.hpp"

#include <algorithm>
#include <map>
#include <sstream>

#include "base/format.hpp"
#include "base/number.hpp"

namespace trireme::comm {
namespace {

constexpr std::string_view last_line = "end of position";

std::string numbers(const std::vector<int>& ranks) {
  std::string text;
  for (const int rank : ranks) text += (text.empty() ? "" : ",") + std::to_string(rank);
  return text.empty() ? "-" : text;
}

// Throws, as at() does, for a text that is none.
template <class T>
T number(const std::string& text) {
  return parse_number<T>(text).value();
}

std::vector<int> read_numbers(const std::string& text) {
  std::vector<int> out;
  std::istringstream in(text);
  std::string word;
  if (text == "-") return out;
  while (std::getline(in, word, ',')) out.push_back(number<int>(word));
  return out;
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
    p.groups.push_back({f.at(1), read_numbers(f.at(2)), number<std::int64_t>(f.at(3))});
  } else if (f.at(0) == "call") {
    p.calls.push_back({f.at(1), read_numbers(f.at(2)), number<std::int64_t>(f.at(3)),
                       f.at(4), f.at(5) == "-" ? "" : f.at(5),
                       number<std::int64_t>(f.at(6)), f.at(7) == "1"});
  }
}

}  // namespace

std::string write_position(const Position& p) {
  std::string text =
      format("rank\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\n", p.rank, p.host, p.phase, p.step,
             p.beat, fixed(p.silent, 3), fixed(p.allowed, 3), p.waiting ? 1 : 0);
  for (const GroupPosition& g : p.groups)
    text += format("group\t{}\t{}\t{}\n", g.name, numbers(g.ranks), g.entered);
  for (const CallPosition& c : p.calls)
    text += format("call\t{}\t{}\t{}\t{}\t{}\t{}\t{}\n", c.group, numbers(c.ranks),
                   c.sequence, c.operation, c.tensor.empty() ? "-" : c.tensor, c.bytes,
                   c.pair ? 1 : 0);
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

std::string ranks_text(std::span<const int> ranks) {
  constexpr int most = 12;
  std::string text;
  int parts = 0;
  for (std::size_t i = 0; i < ranks.size(); ++parts) {
    std::size_t j = i;
    while (j + 1 < ranks.size() && ranks[j + 1] == ranks[j] + 1) ++j;
    if (parts == most) return text + format(" and {} more", ranks.size() - i);
    text += (i ? ", " : "") + std::to_string(ranks[i]);
    if (j > i) text += (j == i + 1 ? ", " : "-") + std::to_string(ranks[j]);
    i = j + 1;
  }
  return text;
}

namespace {

using Positions = std::span<const std::optional<Position>>;
using GroupKey = std::pair<std::string, std::vector<int>>;

std::string call_text(const CallPosition& call) {
  return format(
      "{} #{}{}{}{} on axis '{}'{}", call.operation, call.sequence,
      call.tensor.empty() ? "" : " ", call.tensor,
      call.bytes > 0 ? format(" ({} bytes)", call.bytes) : std::string(), call.group,
      call.ranks.empty() ? std::string() : " of ranks " + ranks_text(call.ranks));
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
  if (!position) return true;
  for (const GroupPosition& g : position->groups)
    if (g.name == group.first && g.ranks == group.second) return g.entered < sequence;
  return false;
}

// Which late ranks count. A rank with GPUs may be in a collective though its host does
// not wait there.
enum class Late : std::uint8_t { in_no_collective, not_waiting, any };

bool counts(const std::optional<Position>& position, Late which) {
  if (!position || which == Late::any) return true;
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

// The oldest collective that ranks have entered and late ones have not.
Verdict missing(Positions positions, Late which) {
  for (const auto& position : positions) {
    if (!position) continue;
    for (const CallPosition& call : position->calls) {
      if (call.pair) continue;
      std::vector<int> late;
      for (const int rank : call.ranks) {
        // Files that others can write to may name any number.
        if (rank < 0 || static_cast<std::size_t>(rank) >= positions.size()) continue;
        const auto& other = positions[static_cast<std::size_t>(rank)];
        if (is_late(other, {call.group, call.ranks}, call.sequence) &&
            counts(other, which))
          late.push_back(rank);
      }
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

Verdict judge(Positions positions) {
  if (Verdict v = missing(positions, Late::in_no_collective); !v.text.empty()) return v;
  if (Verdict v = missing(positions, Late::not_waiting); !v.text.empty()) return v;
  if (Verdict v = different(positions); !v.text.empty()) return v;
  if (Verdict v = missing(positions, Late::any); !v.text.empty()) return v;
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
  if (p->calls.empty()) text += ", in no collective";
  for (const CallPosition& call : p->calls) {
    text += ", in " + call_text(call);
    if (&call - p->calls.data() == 3) break;
  }
  return text;
}

}  // namespace

std::string describe_hang(Positions positions, std::size_t lines) {
  const Verdict verdict = judge(positions);
  std::vector<int> order = verdict.guilty;
  for (std::size_t r = 0; r < positions.size(); ++r)
    if (std::ranges::find(verdict.guilty, static_cast<int>(r)) == verdict.guilty.end())
      order.push_back(static_cast<int>(r));
  std::string text = verdict.text;
  for (std::size_t i = 0; i < std::min(lines, order.size()); ++i)
    text += "\n  " + line_of(positions, order[i]);
  if (order.size() > lines) text += format("\n  and {} more ranks", order.size() - lines);
  return text;
}

}  // namespace trireme::comm
