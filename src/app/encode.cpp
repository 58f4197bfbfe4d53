// `trireme encode --tokenizer F`: lines of text on standard input to token ids.
// SPDX-License-Identifier: Apache-2.0
#include "app/app.hpp"
#include "app/tokenizer_option.hpp"
#include "base/output.hpp"
#include "text/byte_source.hpp"
#include "text/json_lines.hpp"
#include "text/tokenizer.hpp"
#include "text/workspace.hpp"

namespace trireme::app {

int encode(comm::World& world, const Arguments& given) {
  Arguments arguments = given;
  world.agree([&] {
    constexpr std::string_view usage =
        "trireme encode --tokenizer F [--json] [--no-special-tokens]";
    constexpr Option options[] = {
        {"--tokenizer", true}, {"--json", false}, {"--no-special-tokens", false}};
    arguments.parse(usage, options, 0, 0);
    require(arguments.has("--tokenizer"), Status::command_line,
            "--tokenizer is missing: a tokenizer.json or its folder{}",
            usage_below(usage));
    if (world.rank() != 0) return;
    const text::Tokenizer tokenizer = tokenizer_option(arguments);
    const auto special = arguments.has("--no-special-tokens")
                             ? text::SpecialTokens::leave_out
                             : text::SpecialTokens::add;
    text::Workspace workspace;
    text::LineInput lines(text::open_bytes("-"));
    std::vector<std::int32_t> ids;
    while (auto line = lines.next()) {
      if (arguments.has("--json")) *line = text::text_of_json(*line, lines.place());
      ids.clear();
      tokenizer.encode(*line, special, ids, workspace);
      output::write(text::json_of_ids(ids) + "\n");
    }
  });
  return 0;
}

}  // namespace trireme::app
