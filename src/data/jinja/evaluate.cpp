// Evaluates the expressions of a template.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "data/jinja/objects.hpp"

namespace trireme::data::jinja {
namespace {

class FunctionObject final : public Object {
 public:
  explicit FunctionObject(Function function) : function_(std::move(function)) {}
  Value attribute(const std::string& name) const override {
    return Value::undefined(name);
  }
  bool callable() const override { return true; }
  Value call(Budget& budget, const Arguments& arguments) override {
    return function_(budget, arguments);
  }

 private:
  Function function_;
};

Value repeated(const Value& value, std::int64_t times, Budget& budget) {
  const auto count = static_cast<std::size_t>(std::max<std::int64_t>(times, 0));
  const bool text = value.is(Kind::text);
  const std::size_t size = text ? value.text().size() : value.items().size();
  if (size > 0 && count > SIZE_MAX / 128 / size) refuse("a text is repeated too often");
  if (!text) {
    budget.elements(count * size);
    List items;
    for (std::size_t i = 0; i < count; ++i)
      items.insert(items.end(), value.items().begin(), value.items().end());
    return Value::sequence(std::move(items), value.is_tuple());
  }
  budget.make(count * size);
  std::string out;
  out.reserve(count * size);
  for (std::size_t i = 0; size > 0 && i < count; ++i) out += value.text();
  return Value::of(std::move(out));
}

Value whole_power(std::int64_t base, std::int64_t exponent) {
  std::int64_t out = 1;
  if (base == 0 || base == 1) return Value::of(exponent == 0 ? 1 : base);
  if (base == -1) return Value::of(std::int64_t{exponent % 2 == 0 ? 1 : -1});
  for (std::int64_t i = 0; i < exponent; ++i)
    if (__builtin_mul_overflow(out, base, &out)) refuse("a number is too large");
  return Value::of(out);
}

Value whole_arithmetic(char mark, std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  bool over = false;
  switch (mark) {
    case '+': over = __builtin_add_overflow(a, b, &out); break;
    case '-': over = __builtin_sub_overflow(a, b, &out); break;
    case '*': over = __builtin_mul_overflow(a, b, &out); break;
    default: {  // rounded down, and what is left of it
      over = a == INT64_MIN && b == -1;
      if (over) break;
      const bool uneven = a % b != 0 && (a % b < 0) != (b < 0);
      out = mark == '/' ? a / b - (uneven ? 1 : 0) : a % b + (uneven ? b : 0);
    }
  }
  if (over) refuse("a number is too large");
  return Value::of(out);
}

Value real_arithmetic(const std::string& mark, double a, double b) {
  if (mark == "+") return Value::of(a + b);
  if (mark == "-") return Value::of(a - b);
  if (mark == "*") return Value::of(a * b);
  if (mark == "/") return Value::of(a / b);
  if (mark == "**") return Value::of(std::pow(a, b));
  double rest = std::fmod(a, b);
  if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
  return Value::of(mark == "%" ? rest : std::floor((a - rest) / b + 0.5));
}

Value numbers(const std::string& mark, const Value& a, const Value& b) {
  const bool divides = mark == "/" || mark == "//" || mark == "%";
  if (divides && b.number() == 0) refuse("a number is divided by 0");
  const bool whole = !a.is(Kind::real) && !b.is(Kind::real) && mark != "/";
  if (mark == "**" && whole && b.whole() >= 0) return whole_power(a.whole(), b.whole());
  if (!whole || mark == "**") return real_arithmetic(mark, a.number(), b.number());
  return whole_arithmetic(mark[0], a.whole(), b.whole());
}

}  // namespace

Value function_of(Function function) {
  return Value::of(
      std::shared_ptr<Object>(std::make_shared<FunctionObject>(std::move(function))));
}

Value calculate(const std::string& mark, const Value& a, const Value& b, Budget& budget) {
  if (mark == "~") {
    std::string text = to_text(a, budget);
    text += to_text(b, budget);
    budget.make(text.size());
    return Value::of(std::move(text));
  }
  for (const Value* value : {&a, &b})
    if (value->is(Kind::undefined))
      refuse("'" + value->missing_name() + "' is undefined");
  if (a.is_number() && b.is_number()) return numbers(mark, a, b);
  const auto repeats = [](const Value& value, const Value& times) {
    return (value.is(Kind::text) || value.is(Kind::sequence)) &&
           (times.is(Kind::integer) || times.is(Kind::boolean));
  };
  if (mark == "*" && repeats(a, b)) return repeated(a, b.whole(), budget);
  if (mark == "*" && repeats(b, a)) return repeated(b, a.whole(), budget);
  if (mark == "+" && a.is(Kind::text) && b.is(Kind::text)) {
    budget.make(a.text().size() + b.text().size());
    return Value::of(a.text() + b.text());
  }
  if (mark == "+" && a.is(Kind::sequence) && b.is(Kind::sequence) &&
      a.is_tuple() == b.is_tuple()) {
    List items = a.items();
    budget.elements(items.size() + b.items().size());
    items.insert(items.end(), b.items().begin(), b.items().end());
    return Value::sequence(std::move(items), a.is_tuple());
  }
  if (mark == "%" && a.is(Kind::text))
    return Value::of(percent_text(a.text(), b.is_tuple() ? b.items() : List{b}, budget));
  refuse("'" + mark + "' does not work on " + type_name(a) + " and " + type_name(b));
}

Value slice_of(const Value& value, const Value& lower, const Value& upper,
               const Value& step, Budget& budget) {
  if (value.is(Kind::undefined)) refuse("'" + value.missing_name() + "' is undefined");
  if (!value.is(Kind::text) && !value.is(Kind::sequence))
    refuse(type_name(value) + " has no slices");
  const auto given = [](const Value& one) {
    return !one.is(Kind::undefined) && !one.is(Kind::none);
  };
  const std::int64_t by = given(step) ? whole_of(step, "the step of a slice") : 1;
  if (by == 0) refuse("the step of a slice is 0");
  const List items = items_of(value, budget);
  const std::int64_t size = std::ssize(items);
  const std::int64_t least = by > 0 ? 0 : -1, most = by > 0 ? size : size - 1;
  const auto place = [&](const Value& one, std::int64_t otherwise) {
    if (!given(one)) return otherwise;
    const std::int64_t at = whole_of(one, "the end of a slice");
    if (at < -size) return least;
    return std::clamp(offset_of_index(at, size), least, most);
  };
  const std::int64_t begin = place(lower, by > 0 ? 0 : size - 1);
  const std::int64_t end = place(upper, by > 0 ? size : -1);
  List out;
  if (by > 0)
    for (std::int64_t i = begin; i < end; i += std::min(by, size))
      out.push_back(items[static_cast<std::size_t>(i)]);
  else
    for (std::int64_t i = begin; i > end; i += std::max(by, -size))
      out.push_back(items[static_cast<std::size_t>(i)]);
  if (value.is(Kind::sequence)) return Value::sequence(std::move(out), value.is_tuple());
  std::string text;
  for (const Value& item : out) text += item.text();
  return Value::of(std::move(text));
}

Value Interpreter::value(const Node* node) {
  if (node == nullptr) return {};
  const Budget::Level level(budget_);
  budget_.step();
  line_ = node->line;
  return evaluate(*node);
}

Value Interpreter::evaluate(const Node& node) {
  const auto part = [&](std::size_t i) { return value(node.parts[i].get()); };
  switch (node.op) {
    case Op::constant: return node.value;
    case Op::name: {
      const Value* found = scope_->find(node.text);
      return found != nullptr ? *found : Value::undefined(node.text);
    }
    case Op::list: return Value::list(values(node, 0));
    case Op::tuple: return Value::tuple(values(node, 0));
    case Op::dict: return dictionary(node);
    case Op::attribute: return attribute_of(part(0), node.text, budget_);
    case Op::item: {
      const Value whole = part(0);
      return item_of(whole, part(1), budget_);
    }
    case Op::slice: return slice(node);
    case Op::call: return call(node);
    case Op::filter: {
      const Value input = part(0);
      return apply_filter(node.text, input, arguments(node), budget_);
    }
    case Op::test: {
      const Value input = part(0);
      return Value::of(apply_test(node.text, input, arguments(node), budget_));
    }
    case Op::negation: return Value::of(!truth(part(0)));
    case Op::negative: return negative(part(0));
    case Op::positive: return part(0);
    case Op::arithmetic: return arithmetic(node);
    case Op::and_: {
      Value left = part(0);
      return truth(left) ? part(1) : left;
    }
    case Op::or_: {
      Value left = part(0);
      return truth(left) ? left : part(1);
    }
    case Op::comparison: return comparison(node);
    case Op::conditional: {
      if (truth(part(0))) return part(1);
      return node.parts[2] != nullptr ? part(2) : Value::undefined("the other value");
    }
  }
  return {};
}

List Interpreter::values(const Node& node, std::size_t first) {
  List all;
  for (std::size_t i = first; i < node.parts.size(); ++i)
    all.push_back(value(node.parts[i].get()));
  budget_.elements(all.size());
  return all;
}

Value Interpreter::dictionary(const Node& node) {
  Dict entries;
  for (std::size_t i = 0; i < node.parts.size(); i += 2) {
    const Value key = value(node.parts[i].get());
    Value entry = value(node.parts[i + 1].get());
    const std::string& name = text_of(key, "the key of a dict");
    const auto known = std::find_if(entries.begin(), entries.end(),
                                    [&](const auto& one) { return one.first == name; });
    if (known != entries.end())
      known->second = std::move(entry);
    else
      entries.emplace_back(name, std::move(entry));
  }
  budget_.elements(entries.size());
  return Value::dict(std::move(entries));
}

Value Interpreter::slice(const Node& node) {
  const Value whole = value(node.parts[0].get());
  const Value lower = value(node.parts[1].get());
  const Value upper = value(node.parts[2].get());
  return slice_of(whole, lower, upper, value(node.parts[3].get()), budget_);
}

Arguments Interpreter::arguments(const Node& node) {
  Arguments out;
  List all = values(node, 1);
  const std::size_t named = node.words.size(), first = all.size() - named;
  for (std::size_t i = 0; i < named; ++i)
    out.named.emplace_back(node.words[i], std::move(all[first + i]));
  all.resize(first);
  out.positional = std::move(all);
  return out;
}

Value Interpreter::call(const Node& node, const Value* caller) {
  const Value callee = value(node.parts[0].get());
  if (callee.is(Kind::undefined)) refuse("'" + callee.missing_name() + "' is undefined");
  if (!callee.is(Kind::object)) refuse(type_name(callee) + " cannot be called");
  Arguments given = arguments(node);
  if (caller != nullptr) given.named.emplace_back("caller", *caller);
  line_ = node.line;
  return callee.object()->call(budget_, given);
}

Value Interpreter::comparison(const Node& node) {
  Value left = value(node.parts[0].get());
  for (std::size_t i = 0; i < node.words.size(); ++i) {
    Value right = value(node.parts[i + 1].get());
    const std::string& mark = node.words[i];
    budget_.work(left.weight() + right.weight());
    const bool holds = mark == "=="   ? equal(left, right)
                       : mark == "!=" ? !equal(left, right)
                       : mark == "<"  ? compare(left, right) < 0
                       : mark == "<=" ? compare(left, right) <= 0
                       : mark == ">"  ? compare(left, right) > 0
                       : mark == ">=" ? compare(left, right) >= 0
                       : mark == "in" ? contains(right, left)
                                      : !contains(right, left);
    if (!holds) return Value::of(false);
    left = std::move(right);
  }
  return Value::of(true);
}

Value Interpreter::arithmetic(const Node& node) {
  const Value left = value(node.parts[0].get());
  return calculate(node.text, left, value(node.parts[1].get()), budget_);
}

Value Interpreter::negative(const Value& value) const {
  if (value.is(Kind::real)) return Value::of(-value.number());
  const std::int64_t number = whole_of(value, "what has a sign");
  if (number == INT64_MIN) refuse("a number is too large");
  return Value::of(-number);
}

}  // namespace trireme::data::jinja
