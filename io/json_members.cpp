// Members of large JSON objects, seen one at a time.
// SPDX-License-Identifier: Apache-2.0
#include "io/json_members.hpp"

#include <set>
#include <utility>
#include <vector>

#include "base/format.hpp"

namespace trireme::io {
namespace {

constexpr std::size_t longest_shown = 200;

// The keys of the objects that are open around a place of a text.
class OpenKeys {
 public:
  struct Open {
    std::set<std::string> keys;  // none of a list
    std::string last;
  };

  // Follows the parser. Throws JsonMistake for a key that its object has had before.
  void see(Json::parse_event_t event, const Json& value) {
    using Event = Json::parse_event_t;
    if (event == Event::object_start || event == Event::array_start) open_.emplace_back();
    if (event == Event::object_end || event == Event::array_end) open_.pop_back();
    if (event != Event::key) return;
    auto key = value.get<std::string>();
    if (!open_.back().keys.insert(key).second)
      throw JsonMistake(format("the key '{}' comes twice", key.substr(0, longest_shown)),
                        false);
    open_.back().last = std::move(key);
  }
  const std::vector<Open>& open() const { return open_; }

 private:
  std::vector<Open> open_;
};

class Reader {
 public:
  Reader(int level, const EachMember& each) : level_(level), each_(each) {}

  // False: the parser forgets the value.
  bool see(int depth, Json::parse_event_t event, const Json& value) {
    using Event = Json::parse_event_t;
    keys_.see(event, value);
    if (event == Event::key || event == Event::object_start ||
        event == Event::array_start)
      return true;
    const auto& open = keys_.open();
    if (depth != level_ || open.size() != static_cast<std::size_t>(level_)) return true;
    if (open.back().last.empty() && open.back().keys.empty()) return true;  // of a list
    const auto& object = level_ > 1 ? open[open.size() - 2].last : nothing_;
    each_(object, open.back().last, value);
    return false;
  }

 private:
  int level_;
  const EachMember& each_;
  OpenKeys keys_;
  const std::string nothing_;
};

}  // namespace

void for_each_member(std::string_view text, int level, int depth,
                     const EachMember& each) {
  const std::string why = why_no_json(text, depth);
  if (!why.empty()) throw JsonMistake(why, false);
  if (text[text.find_first_not_of(" \t\r\n")] != '{')
    throw JsonMistake("it is a list, not an object", false);
  Reader reader(level, each);
  const auto see = [&](int at, Json::parse_event_t event, const Json& value) {
    return reader.see(at, event, value);
  };
  try {
    [[maybe_unused]] const Json rest = Json::parse(text, see);
  } catch (const Json::exception& error) {
    const std::string reason = why_not_parsed(error, text);
    throw JsonMistake(reason.substr(0, longest_shown),
                      reason.find("UTF-8") != std::string::npos);
  }
}

Json parse_json_unique_keys(std::string_view text) {
  OpenKeys keys;
  const auto see = [&](int, Json::parse_event_t event, const Json& value) {
    keys.see(event, value);
    return true;
  };
  return Json::parse(text, see, false);
}

}  // namespace trireme::io
