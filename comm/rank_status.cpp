// RankStatus: what a rank does, as text.
// SPDX-License-Identifier: Apache-2.0
#include "comm/rank_status.hpp"

#include <exception>
#include <sstream>

#include "base/format.hpp"
#include "base/number.hpp"

namespace trireme::comm {
namespace {

constexpr std::string_view last_line = "end of status";

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

void read_line(const std::vector<std::string>& f, RankStatus& p) {
  if (f.at(0) == "rank") {
    p.rank = number<int>(f.at(1));
    p.host = f.at(2);
    p.phase = f.at(3);
    p.step = number<std::int64_t>(f.at(4));
    p.beat = number<std::int64_t>(f.at(5));
    p.silent = number<double>(f.at(6));
    p.allowed = number<double>(f.at(7));
    p.waiting = f.at(8) == "1";
  } else if (f.at(0) == "device") {
    p.device = f.at(1);
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

std::string write_status(const RankStatus& p) {
  std::string text =
      format("rank\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\n", p.rank, p.host, p.phase, p.step,
             p.beat, fixed(p.silent, 3), fixed(p.allowed, 3), p.waiting ? 1 : 0);
  if (!p.device.empty()) text += format("device\t{}\n", p.device);
  for (const GroupProgress& g : p.groups)
    text += format("group\t{}\t{}\t{}\n", g.name, text_of(g.ranks), g.entered);
  for (const CallInFlight& c : p.calls)
    text += format("call\t{}\t{}\t{}\t{}\t{}\t{}\t{}\n", c.group,
                   c.ranks ? text_of(*c.ranks) : "-", c.sequence, c.operation,
                   c.tensor.empty() ? "-" : c.tensor, c.bytes, c.pair ? 1 : 0);
  return text + std::string(last_line) + "\n";
}

std::optional<RankStatus> read_status(std::string_view text) try {
  std::istringstream in{std::string(text)};
  RankStatus status;
  std::string line;
  while (std::getline(in, line)) {
    if (line == last_line) return status;
    read_line(fields_of(line), status);
  }
  return {};
} catch (const std::exception&) {
  return {};  // a text that is no status
}

}  // namespace trireme::comm
