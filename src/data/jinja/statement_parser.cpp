// Parses the statements of a template.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/error.hpp"
#include "data/jinja/parser.hpp"

namespace trireme::data::jinja {
namespace {

constexpr int most_levels = 60;

}  // namespace

Statement StatementParser::begin(Do kind) {
  Statement statement;
  statement.kind = kind;
  statement.line = word().line;
  return statement;
}

Block StatementParser::block(std::initializer_list<std::string_view> ends) {
  Block out;
  if (++level_ > most_levels) refuse("statements are nested too deeply");
  for (;;) {
    if (word().kind == WordKind::end) {
      if (ends.size() > 0)
        refuse("{% " + std::string(*(ends.end() - 1)) + " %} is expected");
      break;
    }
    if (word().kind == WordKind::data) {
      Statement data = begin(Do::data);
      data.text = take().text;
      out.push_back(std::move(data));
    } else if (word().kind == WordKind::print_begin) {
      Statement print = begin(Do::print);
      take();
      print.parts.push_back(expressions());
      expect(WordKind::print_end, "'}}'");
      out.push_back(std::move(print));
    } else {
      take();
      if (word().kind != WordKind::name) refuse("the name of a statement is expected");
      if (std::find(ends.begin(), ends.end(), word().text) != ends.end()) break;
      statement(out);
    }
  }
  --level_;
  return out;
}

void StatementParser::statement(Block& out) {
  const std::string name = word().text;
  if (name == "if") return out.push_back(branch());
  if (name == "for") return out.push_back(loop());
  if (name == "set") return out.push_back(assign());
  if (name == "macro") return out.push_back(macro());
  if (name == "with") return out.push_back(with());
  if (name == "generation") return out.push_back(generation());
  if (name == "filter") return out.push_back(filter());
  if (name == "call") return out.push_back(caller());
  if (name == "break" || name == "continue") {
    if (loops_ == 0) refuse("a statement outside of loops is expected");
    out.push_back(begin(name == "break" ? Do::stop : Do::go_on));
    take();
    return expect(WordKind::block_end, "'%}'");
  }
  refuse("a statement that is supported is expected");
}

void StatementParser::finish(std::string_view name) {
  if (!skip_name(name)) refuse("{% " + std::string(name) + " %} is expected");
  expect(WordKind::block_end, "'%}'");
}

Statement StatementParser::branch() {
  Statement out = begin(Do::branch);
  while (at_name("if") || at_name("elif")) {
    take();
    out.parts.push_back(expressions(false));
    expect(WordKind::block_end, "'%}'");
    out.blocks.push_back(block({"elif", "else", "endif"}));
  }
  if (skip_name("else")) {
    expect(WordKind::block_end, "'%}'");
    out.blocks.push_back(block({"endif"}));
  }
  finish("endif");
  return out;
}

std::vector<std::string> StatementParser::targets() {
  std::vector<std::string> names;
  const bool bracket = skip_mark("(");
  do {
    if (at_name("in") || at_mark("=") || at_mark(")")) break;
    names.push_back(take_name());
  } while (skip_mark(","));
  if (bracket) expect_mark(")");
  if (names.empty()) refuse("a name is expected");
  return names;
}

Statement StatementParser::loop() {
  Statement out = begin(Do::loop);
  take();
  out.names = targets();
  if (!skip_name("in")) refuse("'in' is expected");
  out.parts.push_back(expressions(false));
  out.parts.push_back(skip_name("if") ? expression() : nullptr);
  out.flag = skip_name("recursive");
  expect(WordKind::block_end, "'%}'");
  ++loops_;
  out.blocks.push_back(block({"else", "endfor"}));
  --loops_;
  if (skip_name("else")) {
    expect(WordKind::block_end, "'%}'");
    out.blocks.push_back(block({"endfor"}));
  }
  finish("endfor");
  return out;
}

Statement StatementParser::assign() {
  Statement out = begin(Do::assign);
  take();
  const bool attribute = next_word().kind == WordKind::mark && next_word().text == ".";
  if (attribute) {
    out.names.push_back(take_name());
    take();
    out.text = take_name();
  } else {
    out.names = targets();
  }
  if (skip_mark("=")) {
    out.parts.push_back(expressions());
    expect(WordKind::block_end, "'%}'");
    return out;
  }
  if (out.names.size() > 1) refuse("'=' is expected");
  out.kind = Do::assign_block;
  NodePtr written = make(Op::name, std::string(block_name));
  out.parts.push_back(at_mark("|") ? filters(std::move(written)) : nullptr);
  expect(WordKind::block_end, "'%}'");
  out.blocks.push_back(block({"endset"}));
  finish("endset");
  return out;
}

Statement StatementParser::macro() {
  Statement out = begin(Do::macro);
  take();
  out.text = take_name();
  expect_mark("(");
  parameters(out);
  expect(WordKind::block_end, "'%}'");
  const int loops = std::exchange(loops_, 0);
  const std::size_t begin_of_body = place();
  out.blocks.push_back(block({"endmacro"}));
  loops_ = loops;
  for (const char* name : {"varargs", "kwargs"})
    if (names_since(begin_of_body, name))
      refuse(std::string("a macro without '") + name + "' is expected");
  out.flag = names_since(begin_of_body, "caller");
  take();
  if (word().kind == WordKind::name) take();  // {% endmacro NAME %}
  expect(WordKind::block_end, "'%}'");
  return out;
}

void StatementParser::parameters(Statement& macro) {
  while (!at_mark(")")) {
    macro.names.push_back(take_name());
    if (skip_mark("="))
      macro.parts.push_back(expression());
    else if (!macro.parts.empty())
      refuse("a default is expected behind arguments that have one");
    if (!skip_mark(",")) break;
  }
  expect_mark(")");
}

// {% filter NAME | NAME %} ... {% endfilter %}
Statement StatementParser::filter() {
  Statement out = begin(Do::filter);
  take();
  out.parts.push_back(filters(make(Op::name, std::string(block_name)), true));
  expect(WordKind::block_end, "'%}'");
  out.blocks.push_back(block({"endfilter"}));
  finish("endfilter");
  return out;
}

// {% call MACRO(...) %} ... {% endcall %}, with arguments {% call(a, b) MACRO(...) %}.
Statement StatementParser::caller() {
  Statement out = begin(Do::caller), body = begin(Do::macro);
  take();
  body.text = "caller";
  if (skip_mark("(")) parameters(body);
  out.parts.push_back(expression());
  if (out.parts[0]->op != Op::call) refuse("the call of a macro is expected before");
  expect(WordKind::block_end, "'%}'");
  const int loops = std::exchange(loops_, 0);
  body.blocks.push_back(block({"endcall"}));
  loops_ = loops;
  finish("endcall");
  out.blocks.emplace_back();  // for what a loop over blocks sees: no text of its own
  out.blocks.emplace_back();
  out.blocks[1].push_back(std::move(body));
  return out;
}

Statement StatementParser::with() {
  Statement out = begin(Do::with);
  take();
  while (word().kind == WordKind::name) {
    out.names.push_back(take_name());
    expect_mark("=");
    out.parts.push_back(expression());
    if (!skip_mark(",")) break;
  }
  expect(WordKind::block_end, "'%}'");
  out.blocks.push_back(block({"endwith"}));
  finish("endwith");
  return out;
}

Statement StatementParser::generation() {
  Statement out = begin(Do::generation);
  take();
  expect(WordKind::block_end, "'%}'");
  const int loops = std::exchange(loops_, 0);  // break would leave the mark open
  out.blocks.push_back(block({"endgeneration"}));
  loops_ = loops;
  finish("endgeneration");
  return out;
}

Block parse_template(std::string_view source) {
  return StatementParser(cut_template(source)).block({});
}

}  // namespace trireme::data::jinja
