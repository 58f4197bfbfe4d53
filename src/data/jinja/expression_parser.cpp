// Parses the expressions of a template.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "base/number.hpp"
#include "data/jinja/filters.hpp"
#include "data/jinja/parser.hpp"

namespace trireme::data::jinja {
namespace {

constexpr int most_depth = 120;

}  // namespace

Word ExpressionParser::take() {
  Word taken = word();
  if (at_ + 1 < words_.size()) ++at_;
  return taken;
}

bool ExpressionParser::at_mark(std::string_view mark) const {
  return word().kind == WordKind::mark && word().text == mark;
}

bool ExpressionParser::at_name(std::string_view name) const {
  return word().kind == WordKind::name && word().text == name;
}

bool ExpressionParser::skip_mark(std::string_view mark) {
  const bool is_there = at_mark(mark);
  if (is_there) take();
  return is_there;
}

bool ExpressionParser::skip_name(std::string_view name) {
  const bool is_there = at_name(name);
  if (is_there) take();
  return is_there;
}

void ExpressionParser::expect_mark(std::string_view mark) {
  if (!skip_mark(mark)) refuse("'" + std::string(mark) + "' is expected");
}

void ExpressionParser::expect(WordKind kind, const char* what) {
  if (word().kind != kind) refuse(std::string(what) + " is expected");
  take();
}

std::string ExpressionParser::take_name() {
  if (word().kind != WordKind::name) refuse("a name is expected");
  return take().text;
}

void ExpressionParser::refuse(const std::string& what) const {
  const char* none =
      word().kind == WordKind::end ? " before the end of the template" : "";
  fail(Status::bad_content, "{}: {}{}", word().line, what,
       word().text.empty() ? none : ", not '" + word().text.substr(0, 40) + "'");
}

NodePtr ExpressionParser::make(Op op, std::string text) const {
  auto node = std::make_unique<Node>();
  node->op = op;
  node->line = word().line;
  node->text = std::move(text);
  return node;
}

NodePtr ExpressionParser::done(NodePtr node) const {
  for (const NodePtr& part : node->parts)
    if (part != nullptr) node->depth = std::max(node->depth, part->depth + 1);
  if (node->depth > most_depth)
    fail(Status::bad_content, "{}: expressions are nested more than {} deep", node->line,
         most_depth);
  return node;
}

NodePtr ExpressionParser::expression(bool conditional) {
  if (++level_ > most_depth) refuse("brackets are nested too deeply");
  NodePtr node = or_expression();
  while (conditional && at_name("if")) {
    NodePtr whole = make(Op::conditional);
    take();
    whole->parts.push_back(or_expression());
    whole->parts.push_back(std::move(node));
    whole->parts.push_back(skip_name("else") ? expression() : nullptr);
    node = done(std::move(whole));
  }
  --level_;
  return node;
}

NodePtr ExpressionParser::expressions(bool conditional) {
  NodePtr first = expression(conditional);
  if (!at_mark(",")) return first;
  NodePtr tuple = make(Op::tuple);
  tuple->parts.push_back(std::move(first));
  while (skip_mark(",")) {
    const WordKind kind = word().kind;
    if (kind == WordKind::block_end || kind == WordKind::print_end || at_mark(")")) break;
    tuple->parts.push_back(expression(conditional));
  }
  return done(std::move(tuple));
}

NodePtr ExpressionParser::or_expression() {
  NodePtr left = and_expression();
  while (at_name("or")) {
    NodePtr node = make(Op::or_);
    take();
    node->parts.push_back(std::move(left));
    node->parts.push_back(and_expression());
    left = done(std::move(node));
  }
  return left;
}

NodePtr ExpressionParser::and_expression() {
  NodePtr left = negation();
  while (at_name("and")) {
    NodePtr node = make(Op::and_);
    take();
    node->parts.push_back(std::move(left));
    node->parts.push_back(negation());
    left = done(std::move(node));
  }
  return left;
}

NodePtr ExpressionParser::negation() {
  if (!at_name("not")) return comparison();
  if (++level_ > most_depth) refuse("'not' is nested too deeply");
  NodePtr node = make(Op::negation);
  take();
  node->parts.push_back(negation());
  --level_;
  return done(std::move(node));
}

NodePtr ExpressionParser::comparison() {
  NodePtr node = make(Op::comparison);
  node->parts.push_back(sum());
  for (;;) {
    std::string word_text = word().text;
    const bool mark = word().kind == WordKind::mark &&
                      (word_text == "==" || word_text == "!=" || word_text == "<" ||
                       word_text == "<=" || word_text == ">" || word_text == ">=");
    const bool outside =
        at_name("not") && next_word().kind == WordKind::name && next_word().text == "in";
    if (!mark && !at_name("in") && !outside) break;
    take();
    if (outside) {
      take();
      word_text = "not in";
    }
    node->words.push_back(std::move(word_text));
    node->parts.push_back(sum());
  }
  if (node->words.empty()) return std::move(node->parts.front());
  return done(std::move(node));
}

NodePtr ExpressionParser::chain(Rule operand,
                                std::initializer_list<std::string_view> marks) {
  NodePtr left = (this->*operand)();
  while (std::any_of(marks.begin(), marks.end(),
                     [&](std::string_view mark) { return at_mark(mark); })) {
    NodePtr node = make(Op::arithmetic, word().text);
    take();
    node->parts.push_back(std::move(left));
    node->parts.push_back((this->*operand)());
    left = done(std::move(node));
  }
  return left;
}

NodePtr ExpressionParser::sum() { return chain(&ExpressionParser::joined, {"+", "-"}); }
NodePtr ExpressionParser::joined() { return chain(&ExpressionParser::product, {"~"}); }
NodePtr ExpressionParser::product() {
  return chain(&ExpressionParser::power, {"*", "/", "//", "%"});
}
NodePtr ExpressionParser::power() { return chain(&ExpressionParser::unary, {"**"}); }

NodePtr ExpressionParser::signed_value(bool with_filters) {
  NodePtr node;
  if (at_mark("-") || at_mark("+")) {
    if (++level_ > most_depth) refuse("signs are nested too deeply");
    node = make(at_mark("-") ? Op::negative : Op::positive);
    take();
    node->parts.push_back(signed_value(false));
    node = done(std::move(node));
    --level_;
  } else {
    node = primary();
  }
  node = postfix(std::move(node));
  return with_filters ? filters_and_tests(std::move(node)) : std::move(node);
}

NodePtr ExpressionParser::primary() {
  if (word().kind == WordKind::name) {
    const std::string& name = word().text;
    const auto constant = [&](Value value) {
      NodePtr node = make(Op::constant);
      node->value = std::move(value);
      take();
      return node;
    };
    if (name == "true" || name == "True") return constant(Value::of(true));
    if (name == "false" || name == "False") return constant(Value::of(false));
    if (name == "none" || name == "None") return constant(Value::none());
    NodePtr node = make(Op::name, name);
    take();
    return node;
  }
  if (at_mark("(")) return bracketed(Op::tuple, ")");
  if (at_mark("[")) return bracketed(Op::list, "]");
  if (at_mark("{")) return dictionary();
  return literal();
}

NodePtr ExpressionParser::literal() {
  NodePtr node = make(Op::constant);
  if (word().kind == WordKind::text) {
    std::string text;
    while (word().kind == WordKind::text) text += take().text;  // "a" "b" is "ab"
    node->value = Value::of(std::move(text));
  } else if (word().kind == WordKind::integer) {
    const auto number = parse_number<std::int64_t>(word().text);
    if (!number) refuse("a whole number below 2^63 is expected");
    node->value = Value::of(*number);
    take();
  } else if (word().kind == WordKind::real) {
    const auto number = parse_number<double>(word().text);
    if (!number) refuse("a number is expected");
    node->value = Value::of(*number);
    take();
  } else {
    refuse("an expression is expected");
  }
  return node;
}

// A list, a tuple, or one expression in brackets.
NodePtr ExpressionParser::bracketed(Op op, std::string_view close) {
  NodePtr node = make(op);
  take();
  bool comma = false;
  while (!at_mark(close)) {
    node->parts.push_back(expression());
    comma = skip_mark(",");
    if (!comma) break;
  }
  expect_mark(close);
  if (op == Op::tuple && node->parts.size() == 1 && !comma)
    return std::move(node->parts.front());
  return done(std::move(node));
}

NodePtr ExpressionParser::dictionary() {
  NodePtr node = make(Op::dict);
  take();
  while (!at_mark("}")) {
    node->parts.push_back(expression());
    expect_mark(":");
    node->parts.push_back(expression());
    if (!skip_mark(",")) break;
  }
  expect_mark("}");
  return done(std::move(node));
}

NodePtr ExpressionParser::postfix(NodePtr node) {
  for (;;) {
    if (at_mark(".")) {
      take();
      NodePtr whole = make(word().kind == WordKind::integer ? Op::item : Op::attribute);
      whole->parts.push_back(std::move(node));
      if (whole->op == Op::item)
        whole->parts.push_back(literal());
      else
        whole->text = take_name();
      node = done(std::move(whole));
    } else if (at_mark("[")) {
      node = subscript(std::move(node));
    } else if (at_mark("(")) {
      node = call(std::move(node));
    } else {
      return node;
    }
  }
}

NodePtr ExpressionParser::subscript(NodePtr node) {
  NodePtr whole = make(Op::item);
  take();
  whole->parts.push_back(std::move(node));
  if (!at_mark(":")) whole->parts.push_back(expression());
  if (at_mark(":")) {
    whole->op = Op::slice;
    if (whole->parts.size() == 1) whole->parts.push_back(nullptr);
    for (int i = 0; i < 2; ++i) {
      const bool there = skip_mark(":") && !at_mark(":") && !at_mark("]");
      whole->parts.push_back(there ? expression() : nullptr);
    }
  }
  expect_mark("]");
  return done(std::move(whole));
}

void ExpressionParser::arguments(Node& node) {
  expect_mark("(");
  while (!at_mark(")")) {
    if (at_mark("*") || at_mark("**")) refuse("* and ** of arguments are not supported");
    const bool named = word().kind == WordKind::name &&
                       next_word().kind == WordKind::mark && next_word().text == "=";
    if (named) {
      node.words.push_back(take().text);
      take();
    } else if (!node.words.empty()) {
      refuse("an argument with a name is expected behind others with names");
    }
    node.parts.push_back(expression());
    if (!skip_mark(",")) break;
  }
  expect_mark(")");
}

NodePtr ExpressionParser::call(NodePtr callee) {
  NodePtr node = make(Op::call);
  node->parts.push_back(std::move(callee));
  arguments(*node);
  return done(std::move(node));
}

bool ExpressionParser::names_since(std::size_t place, std::string_view name) const {
  return std::any_of(
      words_.begin() + static_cast<std::ptrdiff_t>(place),
      words_.begin() + static_cast<std::ptrdiff_t>(at_),
      [&](const Word& one) { return one.kind == WordKind::name && one.text == name; });
}

NodePtr ExpressionParser::filters(NodePtr node, bool named) {
  while (std::exchange(named, false) || skip_mark("|")) {
    NodePtr whole = make(Op::filter, word().text);
    if (!is_filter(word().text)) refuse("a filter that is supported is expected");
    take_name();
    whole->parts.push_back(std::move(node));
    if (at_mark("(")) arguments(*whole);
    node = done(std::move(whole));
  }
  return node;
}

NodePtr ExpressionParser::filters_and_tests(NodePtr node) {
  for (;;) {
    if (at_mark("|"))
      node = filters(std::move(node));
    else if (at_name("is"))
      node = test(std::move(node));
    else if (at_mark("("))
      node = call(std::move(node));
    else
      return node;
  }
}

// x is [not] TEST, TEST(argument) or TEST argument.
NodePtr ExpressionParser::test(NodePtr node) {
  take();
  const bool negated = skip_name("not");
  NodePtr whole = make(Op::test, word().text);
  if (word().kind != WordKind::name || !is_test(word().text))
    refuse("a test that is supported is expected");
  take();
  whole->parts.push_back(std::move(node));
  const WordKind kind = word().kind;
  const bool operand = kind == WordKind::name || kind == WordKind::text ||
                       kind == WordKind::integer || kind == WordKind::real ||
                       at_mark("[") || at_mark("{");
  const bool ends = at_name("else") || at_name("or") || at_name("and") || at_name("if");
  if (at_name("is")) refuse("'is' cannot follow a test");
  if (at_mark("("))
    arguments(*whole);
  else if (operand && !ends)
    whole->parts.push_back(postfix(primary()));
  whole = done(std::move(whole));
  if (!negated) return whole;
  NodePtr negation = make(Op::negation);
  negation->parts.push_back(std::move(whole));
  return done(std::move(negation));
}

}  // namespace trireme::data::jinja
