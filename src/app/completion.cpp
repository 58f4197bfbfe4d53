// Completion for bash, zsh and fish, made from the overview and the table of deck keys.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "app/help_text.hpp"
#include "base/format.hpp"
#include "base/text.hpp"

namespace trireme::app {
namespace {

std::vector<std::string> names_of(const std::vector<CommandText>& commands) {
  std::vector<std::string> names;
  for (const auto& command : commands) names.push_back(command.name);
  return names;
}

// What stands after "help" besides the commands.
constexpr const char* topics =
    "all deck schema man completion completion-zsh completion-fish";

// The words that a key takes, a blank between two; "" where it takes others.
std::string words_of(const io::DeckKey& key) {
  std::string words(key.type == io::KeyType::boolean ? "true|false" : key.choices);
  std::replace(words.begin(), words.end(), '|', ' ');
  return words;
}

std::vector<std::string> sections_of(std::span<const io::DeckKey> table) {
  std::vector<std::string> sections;
  for (const auto& key : table) {
    const std::string section = std::string(key.section) + ".";
    if (std::find(sections.begin(), sections.end(), section) == sections.end())
      sections.push_back(section);
  }
  return sections;
}

std::vector<std::string> keys_of(std::span<const io::DeckKey> table) {
  std::vector<std::string> keys;
  for (const auto& key : table) keys.push_back(full_name(key) + "=");
  return keys;
}

// Lines of a shell's `case` that end in `set`, which has a "{}" for the words.
std::string case_of_keys(std::span<const io::DeckKey> table, std::string_view set) {
  std::string out;
  for (const auto& key : table)
    if (const std::string words = words_of(key); !words.empty())
      out += format("    {}) {} ;;\n", full_name(key), format(set, words));
  return out;
}

std::string case_of_options(const std::vector<CommandText>& commands) {
  std::string out;
  for (const auto& command : commands)
    out +=
        format("    {}) options=\"{}\" ;;\n", command.name, joined(command.options, " "));
  return out;
}

constexpr std::string_view bash_body = R"sh(
_trireme_words() {  # KEY: the words that it takes
  case $1 in
{}  esac
}

_trireme_files() {  # COMMAND: files and folders that it reads
  compopt -o filenames 2>/dev/null
  case $1 in
    train | plan | sweep | bench)
      COMPREPLY+=($(compgen -f -X '!*.toml' -- "$2") $(compgen -d -- "$2")) ;;
    report) COMPREPLY+=($(compgen -d -- "$2")) ;;
    help | version | selftest) ;;
    *) COMPREPLY+=($(compgen -f -- "$2")) ;;
  esac
}

_trireme() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} key= options=
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "{}" -- "$word"))
    return
  fi
  case ${COMP_WORDS[1]} in
{}  esac
  # bash parts words at "=", unless COMP_WORDBREAKS has none.
  if [ "$word" = = ]; then
    key=$before word=
  elif [ "$before" = = ]; then
    key=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  if [ -n "$key" ]; then
    COMPREPLY=($(compgen -W "$(_trireme_words "$key")" -- "$word"))
    [ ${#COMPREPLY[@]} -gt 0 ] || COMPREPLY=($(compgen -f -- "$word"))
    return
  fi
  case ${COMP_WORDS[1]}:$word in
    *:*=*)
      key=${word%%=*}
      COMPREPLY=($(compgen -P "$key=" -W "$(_trireme_words "$key")" -- "${word#*=}"))
      ;;
    *:-*) COMPREPLY=($(compgen -W "$options" -- "$word")) ;;
    help:*) COMPREPLY=($(compgen -W "{} {}" -- "$word")) ;;
    train:* | plan:* | sweep:* | bench:* | inspect:*)
      if [ "$COMP_CWORD" -gt 2 ] && [ "${word#*/}" = "$word" ]; then
        compopt -o nospace 2>/dev/null
        case $word in
          *.*) COMPREPLY=($(compgen -W "$_trireme_keys" -- "$word")) ;;
          *) COMPREPLY=($(compgen -W "$_trireme_sections" -- "$word")) ;;
        esac
      fi
      _trireme_files "${COMP_WORDS[1]}" "$word"
      ;;
    *) _trireme_files "${COMP_WORDS[1]}" "$word" ;;
  esac
}
complete -F _trireme trireme)sh";

constexpr std::string_view zsh_body = R"sh(
local -a commands keys sections words
local options
commands=({})
sections=({})
keys=(
{})

if (( CURRENT == 2 )); then
  compadd -a commands
  return
fi
case $words_line[2] in
{}esac
case $words_line[2]:$PREFIX in
  *:*=*)
    local key=${PREFIX%%=*}
    compset -P '*='
    case $key in
{}    esac
    (( $#words )) && compadd -a words || _files
    ;;
  *:-*) compadd -- ${=options} ;;
  help:*) compadd -a commands; compadd -- {} ;;
  train:*|plan:*|sweep:*|bench:*|inspect:*)
    if (( CURRENT > 3 )); then
      if [[ $PREFIX == *.* ]]; then compadd -S '' -a keys; else compadd -S '' -a sections; fi
    fi
    _files -g '*.toml(-.)'
    ;;
  report:*) _files -/ ;;
  *) _files ;;
esac)sh";

}  // namespace

std::string bash_completion(std::string_view overview,
                            std::span<const io::DeckKey> table) {
  const auto commands = commands_of(overview);
  const std::string names = joined(names_of(commands), " ");
  std::string keys;
  for (const auto& key : keys_of(table)) keys += "  " + key + "\n";
  return "# Completion of trireme for bash; made by `trireme help completion`.\n"
         "_trireme_sections=\"" +
         joined(sections_of(table), " ") + "\"\n_trireme_keys=\"\n" + keys + "\"\n" +
         format(bash_body, case_of_keys(table, "echo \"{}\""), names,
                case_of_options(commands), topics, names);
}

std::string zsh_completion(std::string_view overview,
                           std::span<const io::DeckKey> table) {
  const auto commands = commands_of(overview);
  std::string keys;
  for (const auto& key : keys_of(table)) keys += "  " + key + "\n";
  return "#compdef trireme\n"
         "# Completion of trireme for zsh; made by `trireme help completion-zsh`.\n"
         "local -a words_line=($words)" +
         format(zsh_body, joined(names_of(commands), " "),
                joined(sections_of(table), " "), keys, case_of_options(commands),
                case_of_keys(table, "words=({})"), topics);
}

std::string fish_completion(std::string_view overview,
                            std::span<const io::DeckKey> table) {
  const auto commands = commands_of(overview);
  const std::string names = joined(names_of(commands), " ");
  std::string out =
      "# Completion of trireme for fish; made by `trireme help completion-fish`.\n"
      "complete -c trireme -n \"not __fish_seen_subcommand_from " +
      names + "\" -f -a \"" + names +
      "\"\n"
      "complete -c trireme -n \"__fish_seen_subcommand_from help\" -f -a \"" +
      std::string(topics) + " " + names + "\"\n";
  for (const auto& command : commands)
    for (const auto& option : command.options)
      out += format("complete -c trireme -n \"__fish_seen_subcommand_from {}\" -l {}\n",
                    command.name, option.substr(2));
  out += "function __trireme_settings\n  printf '%s\\n' \\\n";
  for (const auto& key : table) {
    const std::string words = words_of(key);
    if (words.empty()) out += format("    {}= \\\n", full_name(key));
    for (std::size_t at = 0; at < words.size();) {
      const auto end = std::min(words.find(' ', at), words.size());
      out += format("    {}={} \\\n", full_name(key), words.substr(at, end - at));
      at = end + 1;
    }
  }
  return out +
         "    ''\nend\n"
         "complete -c trireme -n \"__fish_seen_subcommand_from train plan sweep bench "
         "inspect\" -a \"(__trireme_settings)\"";
}

}  // namespace trireme::app
