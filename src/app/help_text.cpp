// Pages made from the overview of commands and the table of deck keys.
// SPDX-License-Identifier: Apache-2.0
#include "app/help_text.hpp"

#include <algorithm>
#include <cctype>
#include <sstream>

#include "app/app.hpp"
#include "app/command_pages.hpp"
#include "base/format.hpp"
#include "base/version.hpp"
#include "config/deck_table.hpp"
#include "io/deck_schema.hpp"

namespace trireme::app {
namespace {

bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '-'; }

void add_options(const std::string& line, std::vector<std::string>& options) {
  for (auto at = line.find("--"); at != std::string::npos; at = line.find("--", at)) {
    auto end = at + 2;
    while (end < line.size() && is_name(line[end])) ++end;
    const std::string name = line.substr(at, end - at);
    if (name.size() > 2 &&
        std::find(options.begin(), options.end(), name) == options.end())
      options.push_back(name);
    at = end;
  }
}

// Text for roff: backslashes and leading dots are not commands, dashes are dashes.
std::string roff(std::string_view text) {
  std::string out;
  bool line_begins = true;
  for (const char c : text) {
    if (line_begins && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
    line_begins = c == '\n';
  }
  return out;
}

}  // namespace

std::vector<CommandText> commands_of(std::string_view overview) {
  std::vector<CommandText> commands;
  std::istringstream lines{std::string(overview)};
  for (std::string line; std::getline(lines, line);) {
    const bool head = line.size() > 2 && line.starts_with("  ") && line[2] != ' ';
    if (head) {
      const auto end = std::min(line.find(' ', 2), line.size());
      commands.push_back({line.substr(2, end - 2), {}});
      line = line.substr(end);
    } else if (!line.starts_with("   ") || commands.empty()) {
      continue;
    }
    add_options(line, commands.back().options);
  }
  return commands;
}

std::string man_page(std::string_view overview, std::span<const io::DeckKey> table,
                     std::string_view version) {
  return ".TH TRIREME 1 \"\" \"trireme " + std::string(version) +
         "\" \"User Commands\"\n"
         ".SH NAME\ntrireme \\- train large language models on many processors\n"
         ".SH SYNOPSIS\n.B trireme\n.I COMMAND\n[...]\n"
         ".SH DESCRIPTION\n"
         "Reads an input deck, a TOML file, and trains on the ranks that\n.BR srun (1)\n"
         "or\n.BR mpirun (1)\nstarted. A value of the deck is replaced by an argument\n"
         ".IR section.key=value ,\nwhose right side is TOML; a bare word is a text.\n"
         ".SH COMMANDS\n.nf\n" +
         roff(overview) + "\n.fi\n.SH DECK\n.nf\n" + roff(io::describe_keys(table)) +
         ".fi\n"
         ".SH FILES\n"
         "A run writes below\n.IR run.directory :\nthe deck in force (deck.toml), "
         "metrics.jsonl, status.toml and checkpoints/.\n"
         ".SH SEE ALSO\n.BR srun (1),\n.BR sbatch (1),\n.BR mpirun (1),\n.BR h5ls (1)";
}

std::optional<std::string> help_page(std::string_view name) {
  const auto table = config::deck_table();
  if (name == "schema") return io::deck_schema(table);
  if (name == "completion") return bash_completion(overview(), table);
  if (name == "completion-zsh") return zsh_completion(overview(), table);
  if (name == "completion-fish") return fish_completion(overview(), table);
  if (name == "man") {
    std::string commands(overview());
    for (const CommandPage& page : command_pages())
      commands += format("\n\n{}", page.text);
    return man_page(commands, table, build_info().version);
  }
  return {};
}

}  // namespace trireme::app
