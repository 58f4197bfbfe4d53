// Text in pages and pictures.
// SPDX-License-Identifier: Apache-2.0
#include "app/markup.hpp"

#include <array>
#include <cctype>
#include <cstdio>

#include "base/text.hpp"

namespace trireme::app {

std::string xml_text(std::string_view text) {
  std::string out;
  for (const char c : one_line(text)) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return out;
}

// A backslash before any punctuation of ASCII makes it plain (CommonMark 0.31, section
// 2.4). "&" and "<" are written as entities, for not every reader of tables takes the
// backslash first. ":", "@" and "w." end what would become a link by itself (GitHub's
// autolinks); the rest of the list opens or closes something within a line.
std::string markdown_text(std::string_view text) {
  constexpr std::string_view marks = "\\`*_{}[]()#!|~$^:@+=";
  std::string out;
  for (const char c : one_line(text)) {
    const bool names_a_host = c == '.' && (out.ends_with('w') || out.ends_with('W'));
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (marks.find(c) != std::string_view::npos || names_a_host)
      out += std::string("\\") + c;
    else
      out += c;
  }
  return out;
}

std::string markdown_path(std::string_view path) {
  constexpr std::string_view plain = "-_.~/";
  std::string out;
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x80 && std::isalnum(byte)) || plain.find(c) != std::string_view::npos) {
      out += c;
      continue;
    }
    std::array<char, 4> code{};
    std::snprintf(code.data(), code.size(), "%%%02X", static_cast<unsigned>(byte));
    out += code.data();
  }
  return out;
}

}  // namespace trireme::app
