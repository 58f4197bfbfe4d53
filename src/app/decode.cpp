// `trireme decode --tokenizer F`: lines of token ids on standard input to text.
// SPDX-License-Identifier: Apache-2.0
#include "app/app.hpp"
#include "app/tokenizer_option.hpp"
#include "base/output.hpp"
#include "text/byte_source.hpp"
#include "text/json_lines.hpp"
#include "text/tokenizer.hpp"

namespace trireme::app {

int decode(comm::World& world, const Arguments& given) {
  Arguments arguments = given;
  world.agree([&] {
    constexpr std::string_view usage =
        "trireme decode --tokenizer F [--json] [--skip-special-tokens]";
    constexpr Option options[] = {
        {"--tokenizer", true}, {"--json", false}, {"--skip-special-tokens", false}};
    arguments.parse(usage, options, 0, 0);
    require(arguments.has("--tokenizer"), Status::command_line,
            "--tokenizer is missing: a tokenizer.json or its folder{}",
            usage_below(usage));
    if (world.rank() != 0) return;
    const text::Tokenizer tokenizer = tokenizer_option(arguments);
    text::LineInput lines(text::open_bytes("-"));
    while (const auto line = lines.next()) {
      const auto ids = text::ids_of_json(*line, lines.place());
      std::string out;
      try {
        out = tokenizer.decode(ids, arguments.has("--skip-special-tokens"));
      } catch (const Error& error) {
        fail(error.status(), "{}: {}", lines.place(), error.what());
      }
      output::write((arguments.has("--json") ? text::json_of_text(out) : out) + "\n");
    }
  });
  return 0;
}

}  // namespace trireme::app
