// Values of templates as text: str(), repr() and json.dumps() of Python.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "data/jinja/value.hpp"
#include "text/unicode.hpp"
#include "text/utf8.hpp"

namespace trireme::data::jinja {
namespace {

// Python would print what it is, not what it holds.
void check_no_view(const Value& value) {
  if (value.is_view())
    refuse("a range, the keys of a dict or chosen elements are printed: put '| list'");
}

// The shortest digits that read as the same number, with an exponent below -4 and from
// 16 on.
std::string number_text(double value, const char* infinite, const char* no_number) {
  if (std::isnan(value)) return no_number;
  if (std::isinf(value)) return (value < 0 ? "-" : "") + std::string(infinite);
  std::array<char, 64> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                 std::chars_format::scientific);
  const std::string text(buffer.data(), end.ptr);
  const std::size_t mark = text.find('e');
  int exponent = 0;
  std::from_chars(text.data() + mark + (text[mark + 1] == '+' ? 2 : 1),
                  text.data() + text.size(), exponent);
  if (exponent < -4 || exponent >= 16) return text;
  std::string digits = text.substr(0, mark);
  const std::string sign = digits.starts_with('-') ? "-" : "";
  std::erase_if(digits, [](char c) { return c == '-' || c == '.'; });
  if (exponent < 0)
    return sign + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') +
           digits;
  const auto whole = static_cast<std::size_t>(exponent) + 1;
  if (digits.size() < whole) digits.resize(whole, '0');
  return sign + digits.substr(0, whole) + "." +
         (digits.size() > whole ? digits.substr(whole) : "0");
}

std::string hexadecimal(char32_t code, int digits) {
  std::string text;
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4)
    text += "0123456789abcdef"[code >> shift & 15];
  return text;
}

bool is_printable(char32_t code) {
  return code == ' ' || !text::is_in(code, text::others | text::separators);
}

void append_quoted(std::string& out, std::string_view text) {
  const bool twice = text.find('\'') != text.npos && text.find('"') == text.npos;
  const char quote = twice ? '"' : '\'';
  out += quote;
  for (std::size_t at = 0; at < text.size();) {
    const text::CodePoint code = text::code_point_at(text, at);
    if (code.value == static_cast<char32_t>(quote) || code.value == '\\')
      out += std::string("\\") + static_cast<char>(code.value);
    else if (code.value == '\n')
      out += "\\n";
    else if (code.value == '\r')
      out += "\\r";
    else if (code.value == '\t')
      out += "\\t";
    else if (is_printable(code.value))
      out += text.substr(at, code.bytes);
    else if (code.value < 0x100)
      out += "\\x" + hexadecimal(code.value, 2);
    else
      out += code.value < 0x10000 ? "\\u" + hexadecimal(code.value, 4)
                                  : "\\U" + hexadecimal(code.value, 8);
    at += code.bytes;
  }
  out += quote;
}

void append_repr(std::string& out, const Value& value, Budget& budget) {
  budget.step();
  switch (value.kind()) {
    case Kind::undefined: out += "Undefined"; return;
    case Kind::none: out += "None"; return;
    case Kind::boolean: out += value.boolean() ? "True" : "False"; return;
    case Kind::integer: out += std::to_string(value.whole()); return;
    case Kind::real: out += number_text(value.number(), "inf", "nan"); return;
    case Kind::text:
      budget.make(value.text().size());
      append_quoted(out, value.text());
      return;
    case Kind::sequence: {
      check_no_view(value);
      out += value.is_tuple() ? "(" : "[";
      bool first = true;
      for (const Value& item : value.items()) {
        if (!std::exchange(first, false)) out += ", ";
        append_repr(out, item, budget);
      }
      if (value.is_tuple() && value.items().size() == 1) out += ",";
      out += value.is_tuple() ? ")" : "]";
      return;
    }
    case Kind::mapping: {
      out += "{";
      bool first = true;
      for (const auto& entry : value.entries()) {
        if (!std::exchange(first, false)) out += ", ";
        append_quoted(out, entry.first);
        out += ": ";
        append_repr(out, entry.second, budget);
      }
      out += "}";
      return;
    }
    case Kind::object: refuse("a macro, a loop or a namespace cannot be printed");
  }
}

void append_json_text(std::string& out, std::string_view text, bool ascii) {
  out += '"';
  for (std::size_t at = 0; at < text.size();) {
    const text::CodePoint code = text::code_point_at(text, at);
    const auto known = std::string_view("\"\\\n\r\t\b\f")
                           .find(static_cast<char>(code.value < 0x80 ? code.value : 0));
    if (code.value != 0 && known != std::string_view::npos)
      out += std::string("\\") + "\"\\nrtbf"[known];
    else if (code.value < 0x20 || (ascii && code.value >= 0x7F && code.value < 0x10000))
      out += code.value == 0x7F ? "\x7F" : "\\u" + hexadecimal(code.value, 4);
    else if (ascii && code.value >= 0x10000)
      out += "\\u" + hexadecimal(0xD800 + ((code.value - 0x10000) >> 10), 4) + "\\u" +
             hexadecimal(0xDC00 + ((code.value - 0x10000) & 0x3FF), 4);
    else
      out += text.substr(at, code.bytes);
    at += code.bytes;
  }
  out += '"';
}

class JsonPrinter {
 public:
  JsonPrinter(const JsonStyle& style, Budget& budget) : style_(style), budget_(budget) {}

  void put(const Value& value) {
    budget_.step();
    switch (value.kind()) {
      case Kind::none: out += "null"; return;
      case Kind::boolean: out += value.boolean() ? "true" : "false"; return;
      case Kind::integer: out += std::to_string(value.whole()); return;
      case Kind::real: out += number_text(value.number(), "Infinity", "NaN"); return;
      case Kind::text:
        budget_.make(value.text().size());
        append_json_text(out, value.text(), style_.ascii);
        return;
      case Kind::sequence: {
        check_no_view(value);
        const List& items = value.items();
        put_all('[', ']', items.size(), [&](std::size_t i) { put(items[i]); });
        return;
      }
      case Kind::mapping: put_entries(value.entries()); return;
      default: refuse(type_name(value) + " has no form in JSON");
    }
  }

  std::string out;

 private:
  void put_entries(const Dict& entries) {
    std::vector<const std::pair<std::string, Value>*> order;
    for (const auto& entry : entries) order.push_back(&entry);
    if (style_.sorted)
      std::stable_sort(order.begin(), order.end(),
                       [](const auto* a, const auto* b) { return a->first < b->first; });
    put_all('{', '}', order.size(), [&](std::size_t i) {
      append_json_text(out, order[i]->first, style_.ascii);
      out += style_.key_separator;
      put(order[i]->second);
    });
  }

  template <class PutOne>
  void put_all(char open, char close, std::size_t count, const PutOne& put_one) {
    out += open;
    ++level_;
    for (std::size_t i = 0; i < count; ++i) {
      if (i > 0) out += style_.item_separator;
      new_line();
      put_one(i);
    }
    --level_;
    if (count > 0) new_line();
    out += close;
  }

  void new_line() {
    if (!style_.lines) return;
    budget_.make(style_.indent.size() * static_cast<std::size_t>(level_));
    out += '\n';
    for (int i = 0; i < level_; ++i) out += style_.indent;
  }

  const JsonStyle& style_;
  Budget& budget_;
  int level_ = 0;
};

}  // namespace

std::string to_repr(const Value& value, Budget& budget) {
  std::string out;
  append_repr(out, value, budget);
  budget.make(out.size());
  return out;
}

std::string to_text(const Value& value, Budget& budget) {
  if (value.is(Kind::undefined)) return "";
  if (!value.is(Kind::text)) return to_repr(value, budget);
  budget.make(value.text().size());
  return value.text();
}

std::string to_json(const Value& value, const JsonStyle& style, Budget& budget) {
  JsonPrinter printer(style, budget);
  printer.put(value);
  budget.make(printer.out.size());
  return std::move(printer.out);
}

}  // namespace trireme::data::jinja
