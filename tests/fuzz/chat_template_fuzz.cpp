// Fuzzes chat templates: what is accepted renders a conversation twice alike.
// SPDX-License-Identifier: Apache-2.0
#include "data/chat_template.hpp"
#include "fuzz.hpp"
#include "text/utf8.hpp"

namespace trireme {
namespace {

using Json = data::ChatTemplate::Json;

Json conversation(const std::string& text) {
  Json fallback = Json::parse(
      R"([{"role": "system", "content": "s"}, {"role": "user", "content": "hi é"},
          {"role": "assistant", "content": "yes", "tool_calls": [{"function":
           {"name": "f", "arguments": {"a": [1, 2.5, null, true]}}}]}])");
  const Json given = Json::parse(text, nullptr, false);
  return given.is_array() && !given.empty() ? given : fallback;
}

// A template; after a line `--` a list of messages.
void check(std::string_view input) {
  const auto parts = fuzz::split_at(input, "--");
  data::ChatTemplateConfig config;
  config.special = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  config.date = "2026-01-31";
  config.limits.steps = 20'000;
  config.limits.bytes = std::size_t{1} << 22;
  const auto chat =
      fuzz::unless_refused([&] { return data::ChatTemplate(parts.first, config); });
  if (!chat) return;
  const Json messages = conversation(parts.second);
  const auto once = fuzz::unless_refused([&] { return chat->render(messages, true); });
  const auto again = fuzz::unless_refused([&] { return chat->render(messages, true); });
  if (once.has_value() != again.has_value()) fuzz::finding("it is refused only once");
  if (!once) return;
  fuzz::require_equal("renderings", once->text, again->text);
  if (text::valid_bytes(once->text) != once->text.size()) fuzz::finding("is no UTF-8");
  std::uint32_t end = 0;
  for (const text::Range& range : once->generated) {
    if (range.begin < end || range.end < range.begin || range.end > once->text.size())
      fuzz::finding("a generation lies outside of the text");
    end = range.end;
  }
}

}  // namespace
}  // namespace trireme

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  trireme::check({reinterpret_cast<const char*>(data), size});
  return 0;
}
