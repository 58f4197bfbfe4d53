// Added tokens: their ids, and how they are found.
// SPDX-License-Identifier: Apache-2.0
#include "text/added_tokens.hpp"

#include <algorithm>

#include "base/format.hpp"
#include "base/text.hpp"
#include "text/unicode.hpp"
#include "text/utf8.hpp"

namespace trireme::text {
namespace {

AddedToken read_token(const ConfigNode& node) {
  node.only(
      {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
  AddedToken token;
  const std::int64_t id = node.at("id").integer();
  if (id < 0 || id > INT32_MAX - 1) node.at("id").fail("is outside [0, 2147483646]");
  token.id = static_cast<std::int32_t>(id);
  token.content = node.at("content").text();
  token.special = node.boolean("special", false);
  token.normalized = node.boolean("normalized", !token.special);
  token.single_word = node.boolean("single_word", false);
  token.lstrip = node.boolean("lstrip", false);
  token.rstrip = node.boolean("rstrip", false);
  return token;
}

// Where the white space before `end` begins, and where that from `begin` on ends.
std::size_t space_begin(std::string_view text, std::size_t end) {
  while (end > 0 && is_space(code_point_before(text, end).value))
    end -= code_point_before(text, end).bytes;
  return end;
}
std::size_t space_end(std::string_view text, std::size_t begin) {
  while (begin < text.size() && is_space(code_point_at(text, begin).value))
    begin += code_point_at(text, begin).bytes;
  return begin;
}

bool is_inside_word(std::string_view text, std::size_t begin, std::size_t end) {
  return (begin > 0 && is_rust_word(code_point_before(text, begin).value)) ||
         (end < text.size() && is_rust_word(code_point_at(text, end).value));
}

}  // namespace

AddedTokens::AddedTokens(const ConfigNode& node, const Model& model,
                         const Normalizer* normalizer) {
  if (node.is_null()) return;
  std::int64_t next = model.size();
  for (const ConfigNode& entry : node.elements()) {
    AddedToken token = read_token(entry);
    if (token.content.empty()) continue;  // the reference passes it over
    if (contents_.contains(token.content))
      entry.fail("is a second token \"" + one_line(token.content) + "\"");
    const auto known = model.id_of(token.content);
    const std::int64_t id = known ? *known : next;
    if (token.id != id)
      entry.fail(trireme::format(
          "gives \"{}\" the id {}, but readers of such files give it {}: the id of the "
          "model's vocabulary, else the next free one in the order of the file",
          one_line(token.content), token.id, id));
    next = std::max(next, id + 1);
    AlignedText text{token.content, {}, true};
    if (token.normalized && normalizer != nullptr) normalizer->apply(text);
    token.decoded = text.text;
    ids_[token.id] = all_.size();
    contents_[token.content] = all_.size();
    all_.push_back(token);
    if (!token.normalized)
      raw_.add(token.content, token);
    else if (text.text.empty())
      entry.fail(
          "is \"" + one_line(token.content) +
          "\", of which the normalizer leaves nothing, so that readers of such files "
          "cut every text into characters: set \"normalized\": false");
    else
      normalized_.add(text.text, token);
  }
  raw_.sort();
  normalized_.sort();
}

std::optional<std::string> AddedTokens::add(AddedToken token, bool is_found) {
  if (token.content.empty()) return "is an empty token";
  if (contents_.contains(token.content))
    return "is a second token \"" + one_line(token.content) + "\"";
  if (ids_.contains(token.id))
    return trireme::format("gives \"{}\" the id {} of another token",
                           one_line(token.content), token.id);
  ids_[token.id] = all_.size();
  contents_[token.content] = all_.size();
  token.decoded = token.content;
  if (is_found) raw_.add(token.content, token);
  all_.push_back(std::move(token));
  return {};
}

const AddedToken* AddedTokens::by_id(std::int32_t id) const {
  const auto found = ids_.find(id);
  return found == ids_.end() ? nullptr : &all_[found->second];
}

const AddedToken* AddedTokens::by_content(std::string_view content) const {
  const auto found = contents_.find(std::string(content));
  return found == contents_.end() ? nullptr : &all_[found->second];
}

void AddedTokens::Finder::sort() {
  const auto by_text = [](const Pattern& a, const Pattern& b) { return a.text < b.text; };
  const auto same = [](const Pattern& a, const Pattern& b) { return a.text == b.text; };
  std::stable_sort(patterns_.begin(), patterns_.end(), by_text);
  patterns_.erase(std::unique(patterns_.begin(), patterns_.end(), same), patterns_.end());
  std::vector<std::pair<std::string, std::int32_t>> places;
  for (const Pattern& pattern : patterns_) {
    places.emplace_back(pattern.text, static_cast<std::int32_t>(places.size()));
    is_first_[static_cast<unsigned char>(pattern.text[0])] = true;
  }
  trie_ = PieceTrie(places);
}

const AddedTokens::Finder::Pattern* AddedTokens::Finder::at(std::string_view text) const {
  const Pattern* longest = nullptr;
  trie_.for_each_prefix(text, [&](std::size_t /*bytes*/, std::int32_t place) {
    longest = &patterns_[static_cast<std::size_t>(place)];
  });
  return longest;
}

std::vector<AddedPart> AddedTokens::Finder::find(std::string_view text) const {
  std::vector<AddedPart> parts;
  const auto put = [&](std::int32_t id, std::size_t begin, std::size_t end) {
    parts.push_back(
        {id, {static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)}});
  };
  std::size_t done = 0;
  for (std::size_t i = 0; !empty() && i < text.size();) {
    const Pattern* pattern = nullptr;
    if (!is_first_[static_cast<unsigned char>(text[i])] ||
        (pattern = at(text.substr(i))) == nullptr) {
      ++i;
      continue;
    }
    std::size_t begin = i, end = i + pattern->text.size();
    i = end;
    if (pattern->token.single_word && is_inside_word(text, begin, end)) continue;
    if (pattern->token.lstrip) begin = std::max(space_begin(text, begin), done);
    if (pattern->token.rstrip) end = space_end(text, end);
    if (begin >= end) continue;  // the token before has swallowed it
    if (done < begin) put(-1, done, begin);
    put(pattern->token.id, begin, end);
    done = end;
  }
  if (done < text.size()) put(-1, done, text.size());
  return parts;
}

}  // namespace trireme::text
