// Post-processors: the special tokens that are put around a text.
// SPDX-License-Identifier: Apache-2.0
#include "text/stages.hpp"

namespace trireme::text {
namespace {

// Tokens before and behind the text.
class Around final : public PostProcessor {
 public:
  Around(std::vector<std::int32_t> before, std::vector<std::int32_t> behind)
      : before_(std::move(before)), behind_(std::move(behind)) {}
  void apply(std::vector<std::int32_t>& ids, std::vector<Range>& offsets) const override {
    ids.insert(ids.begin(), before_.begin(), before_.end());
    ids.insert(ids.end(), behind_.begin(), behind_.end());
    const Range end{offsets.empty() ? 0 : offsets.back().end,
                    offsets.empty() ? 0 : offsets.back().end};
    offsets.insert(offsets.begin(), before_.size(), Range{});
    offsets.insert(offsets.end(), behind_.size(), end);
  }

 private:
  std::vector<std::int32_t> before_, behind_;
};

class Sequence final : public PostProcessor {
 public:
  explicit Sequence(std::vector<std::unique_ptr<PostProcessor>> parts)
      : parts_(std::move(parts)) {}
  void apply(std::vector<std::int32_t>& ids, std::vector<Range>& offsets) const override {
    for (const auto& part : parts_) part->apply(ids, offsets);
  }

 private:
  std::vector<std::unique_ptr<PostProcessor>> parts_;
};

std::int32_t id_in(const ConfigNode& node) {
  const std::int64_t id = node.integer();
  if (id < 0 || id > INT32_MAX) node.fail("is no token's id");
  return static_cast<std::int32_t>(id);
}

// The ids stand in special_tokens, and need not be those of the vocabulary.
std::unique_ptr<PostProcessor> make_template(const ConfigNode& node) {
  node.only({"single", "pair", "special_tokens"});
  std::vector<std::int32_t> before, behind;
  bool seen = false;
  for (const ConfigNode& part : node.at("single").elements()) {
    part.only({"SpecialToken", "Sequence"});
    if (part.has("Sequence")) {
      if (seen || part.at("Sequence").at("id").text() != "A")
        part.fail("must be the one text A of \"single\"");
      seen = true;
      continue;
    }
    const std::string name = part.at("SpecialToken").at("id").text();
    const ConfigNode ids = node.at("special_tokens").at(name.c_str()).at("ids");
    for (const ConfigNode& id : ids.elements())
      (seen ? behind : before).push_back(id_in(id));
  }
  if (!seen) node.at("single").fail("does not hold the text A");
  return std::make_unique<Around>(std::move(before), std::move(behind));
}

// {"sep": ["</s>", 2], "cls": ["<s>", 0]}.
std::unique_ptr<PostProcessor> make_cls_sep(const ConfigNode& node) {
  const auto id_of = [&](const char* key) {
    const auto pair = node.at(key).elements();
    if (pair.size() != 2) node.at(key).fail("must be a token and its id");
    return id_in(pair[1]);
  };
  return std::make_unique<Around>(std::vector{id_of("cls")}, std::vector{id_of("sep")});
}

}  // namespace

std::unique_ptr<PostProcessor> make_post_processor(const ConfigNode& node) {
  if (node.is_null()) return nullptr;
  const std::string type = node.type();
  if (type == "TemplateProcessing") return make_template(node);
  if (type == "ByteLevel") {  // which moves offsets only, and not those that we give
    node.only({"add_prefix_space", "trim_offsets", "use_regex"});
    return nullptr;
  }
  if (type == "BertProcessing") {
    node.only({"sep", "cls"});
    return make_cls_sep(node);
  }
  if (type == "RobertaProcessing") {
    node.only({"sep", "cls", "trim_offsets", "add_prefix_space"});
    return make_cls_sep(node);
  }
  if (type == "Sequence") {
    node.only({"processors"});
    std::vector<std::unique_ptr<PostProcessor>> parts;
    for (const ConfigNode& part : node.at("processors").elements())
      if (auto made = make_post_processor(part)) parts.push_back(std::move(made));
    return std::make_unique<Sequence>(std::move(parts));
  }
  node.fail("has the type \"" + type + "\", a post-processor that is not supported");
}

}  // namespace trireme::text
