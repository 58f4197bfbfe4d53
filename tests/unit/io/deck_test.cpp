// Deck: syntax, types, overrides, messages and the effective deck, on a small table.
// SPDX-License-Identifier: Apache-2.0
#include "io/deck.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <limits>
#include <utility>

#include "base/philox.hpp"

namespace trireme {
namespace {

using io::Deck;
using io::DeckKey;
using io::KeyType;

constexpr double infinite = std::numeric_limits<double>::infinity();

constexpr io::Key<std::int64_t> steps{
    {"run", "steps", KeyType::integer, "steps", "", 1, 1000, "", "Steps."}};
constexpr io::Key<std::string> run_name{
    {"run", "name", KeyType::text, "", "\"run\"", 0, 0, "", "Name."}};
constexpr io::Key<double> limit{
    {"run", "limit", KeyType::seconds, "seconds", "0", 0, 1e6, "", "Limit."}};
constexpr io::Key<std::int64_t> heads{
    {"model", "heads", KeyType::integer, "", "4", 1, infinite, "", "Heads."}};
constexpr io::Key<std::string> kind{
    {"model", "kind", KeyType::text, "", "\"llama\"", 0, 0, "llama|gpt2", "Kind."}};
constexpr io::Key<bool> tied{
    {"model", "tied", KeyType::boolean, "", "false", 0, 0, "", "Tied."}};
constexpr io::Key<double> rate{
    {"model", "rate", KeyType::real, "", "0.5", 0, 1, "", "Rate.", true, true}};
constexpr io::Key<std::vector<std::string>> paths{
    {"data", "paths", KeyType::texts, "", "[]", 0, 0, "", "Paths."}};
constexpr io::Key<std::int64_t> cache{
    {"data", "cache", KeyType::bytes, "bytes", "\"1 MiB\"", 0, 1e15, "", "Cache."}};
constexpr io::Key<std::vector<double>> betas{
    {"optimizer", "betas", KeyType::reals, "", "[0.9, 0.95]", 0, 1, "", "Betas."}};
constexpr io::Key<std::int64_t> warmup{{"optimizer.schedule", "warmup", KeyType::integer,
                                        "steps", "0", 0, 100, "", "Warm-up."}};
constexpr io::Key<std::vector<std::int64_t>> dump{
    {"debug", "dump", KeyType::integers, "steps", "[]", 1, 100, "", "Dump."}};
const std::array<DeckKey, 12> table = {steps, run_name, limit, heads, kind,   tied,
                                       rate,  paths,    cache, betas, warmup, dump};

Deck parse(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return Deck::parse(text, "x.toml", overrides, table);
}

struct Thrown {
  Status status = Status::done;
  std::string text = "(no error)";
};

Thrown thrown_by(const std::string& text,
                 const std::vector<std::string>& overrides = {}) {
  try {
    parse(text, overrides);
  } catch (const Error& error) {
    return {error.status(), error.what()};
  }
  return {};
}

std::string problem(const std::string& text,
                    const std::vector<std::string>& overrides = {}) {
  return thrown_by(text, overrides).text;
}

const std::string minimal = "run.steps = 3\n";

TEST(Deck, ReadsEveryType) {
  const Deck deck = parse(R"(
[run]
steps = 1_000
name = "a \"b\" é"
limit = "1.5 min"
[model]
tied = true
rate = 3e-4
[data]
paths = ["a", 'b']
cache = "2 KiB"
[optimizer]
betas = [0, 1]
schedule.warmup = 7
[debug]
dump = [1, 2]
)");
  EXPECT_EQ(deck[steps], 1000);
  EXPECT_EQ(deck[run_name], "a \"b\" é");
  EXPECT_EQ(deck[limit], 90.0);
  EXPECT_EQ(deck[heads], 4);
  EXPECT_TRUE(deck[tied]);
  EXPECT_EQ(deck[rate], 3e-4);
  EXPECT_EQ(deck[paths], (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(deck[cache], 2048);
  EXPECT_EQ(deck[betas], (std::vector<double>{0, 1}));
  EXPECT_EQ(deck[warmup], 7);
  EXPECT_EQ(deck[dump], (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(deck.where("run.steps"), "x.toml:3:9");
  EXPECT_EQ(deck.where("model.heads"), "default");
  EXPECT_FALSE(deck.given("model.heads"));
  EXPECT_TRUE(deck.given("run.limit"));
  EXPECT_EQ(deck.value_text("data.paths"), "[\"a\", \"b\"]");
  EXPECT_EQ(deck.unread(), std::vector<std::string>{"model.kind"});
}

TEST(Deck, MisuseInTheProgramIsInternal) {
  const Deck deck = parse(minimal);
  constexpr io::Key<std::int64_t> wrong_type{run_name},
      unknown{{"run", "stepz", KeyType::integer, "", "", 1, 2, "", "Steps."}};
  EXPECT_THROW(deck[wrong_type], Error);
  EXPECT_THROW(deck[unknown], Error);
}

TEST(Deck, Messages) {
  const std::array<std::array<std::string, 2>, 32> cases = {{
      {"run.steps = \"twelve\"",
       "x.toml:1:13: run.steps = \"twelve\": expected an integer between 1 and 1000"},
      {"run.steps = 3.0",
       "run.steps = 3.0: expected an integer between 1 and 1000; "
       "write 3"},
      {"run.steps = 0", "x.toml:1:13: run.steps = 0: must be between 1 and 1000"},
      {"run.steps = 1979-05-27", "run.steps = 1979-05-27: expected an integer"},
      {"run.steps = [1]", "run.steps = [1]: expected an integer"},
      {"[run.steps]", "x.toml:1:1: run.steps = {}: expected an integer"},
      {"run.stepz = 3", "x.toml:1:5: run.stepz: unknown key; did you mean 'run.steps'?"},
      {"[run]\n  step = 3",
       "x.toml:2:3: run.step: unknown key; did you mean 'run.steps'?"},
      {"[optimizer]\nwarmup = 3",
       "x.toml:2:1: optimizer.warmup: unknown key; did you mean "
       "'optimizer.schedule.warmup'?"},
      {"[schedule]\nwarmup = 3",
       "schedule: unknown section; did you mean "
       "[optimizer.schedule]?"},
      {"[modle]\nheads = 3", "x.toml:1:2: modle: unknown section; did you mean [model]?"},
      {"[wholly_other]\nheads = 3",
       "wholly_other: unknown section; the sections are run, model, data, optimizer, "
       "optimizer.schedule, debug"},
      {"model.colour = 3",
       "model.colour: unknown key; the keys of [model] are heads, "
       "kind, tied, rate"},
      {"model = 3",
       "model = 3: is a section, not a key: write [model] and below it its "
       "keys heads, kind, tied, rate"},
      {"\"model.heads\" = 3", "x.toml:1:1: \"model.heads\": unknown key"},
      {"[[model]]\nheads = 3", "model = [{ heads = 3 }]: is a section"},
      {"model.heads = 0", "must be 1 or more"},
      {"model.kind = \"gtp2\"",
       "model.kind = \"gtp2\": must be one of \"llama\", "
       "\"gpt2\"; did you mean \"gpt2\"?"},
      {"model.kind = 3", "expected one of \"llama\", \"gpt2\""},
      {"model.rate = 0", "must be above 0 and below 1"},
      {"model.rate = 1.0", "must be above 0 and below 1"},
      {"model.rate = inf", "must be finite"},
      {"model.rate = nan", "must be finite"},
      {"data.paths = \"a\"",
       "expected a list of texts, such as [\"a\", \"b\"]; write "
       "[\"a\"]"},
      {"data.paths = [\"a\", 1]", "element 2, 1: expected text"},
      {"data.cache = \"4 GiBs\"", "unknown unit 'GiBs'; the units are B, kB"},
      {"data.cache = \"0.3 B\"", "is not a whole number of bytes"},
      {"run.limit = \"1:2:3:4\"", "\"02:00:00\" (hours:minutes:seconds)"},
      {"run.limit = \"-1:00\"", "\"1-02:00\" (days-hours:minutes)"},
      {"run.limit = \"half an hour\"",
       "expected a time (seconds, or text such as \"30 "
       "min\")"},
      {"debug.dump = [1, 101]", "element 2, 101: must be between 1 and 100"},
      {"run.name = \"a\\nb\"", "must not contain control characters"},
  }};
  for (const auto& [text, expected] : cases) {
    const bool gives_steps = text.find("run.steps") != std::string::npos;
    std::vector<std::string> overrides;
    if (!gives_steps) overrides.push_back("run.steps=1");
    const Thrown thrown = thrown_by(text, overrides);
    EXPECT_NE(thrown.text.find(expected), std::string::npos)
        << text << "\ngives  " << thrown.text << "\nlacks  " << expected;
    EXPECT_EQ(thrown.status, Status::bad_content) << text;
  }
}

TEST(Deck, MissingRequiredKey) {
  EXPECT_EQ(problem(""),
            "x.toml: run.steps: must be given: an integer between 1 and 1000 (Steps.)");
}

TEST(Deck, AllProblemsAtOnceInTheOrderOfTheFile) {
  const std::string text =
      problem("model.tied = 3\nmodel.kin = 1\n[data]\ncache = true\n", {"model.heads=x"});
  EXPECT_EQ(text,
            "x.toml:1:14: model.tied = 3: expected true or false\n"
            "x.toml:2:7: model.kin: unknown key; did you mean 'model.kind'?\n"
            "x.toml:4:9: data.cache = true: expected a size (bytes, or text such as \"4 "
            "GiB\") between 0 and 1000000000000000\n"
            "x.toml: run.steps: must be given: an integer between 1 and 1000 (Steps.)\n"
            "command line: model.heads = \"x\": expected an integer, 1 or more");
}

TEST(Deck, SyntaxErrors) {
  const std::array<std::array<std::string, 2>, 10> cases = {{
      {"run.steps = ", "x.toml:1:"},
      {"run.steps = 1\nrun.steps = 2", "x.toml:2:"},
      {"run.steps = 99999999999999999999", "64"},
      {"[run\nsteps = 1", "x.toml:1:"},
      {"run.name = \"\xff\xfe\"", "utf-8"},
      {std::string("run\0steps", 9), "x.toml: not a text file: byte 3 is zero"},
      {std::string("\xff\xfer\0", 4), "x.toml: is text in UTF-16: save it in UTF-8"},
      {"run.steps = " + std::string(10000, '['), "nest"},
      {"a" + std::string(30, '.') + " = 1", "x.toml:1:17: a key has more than 16 parts"},
      {"run.steps = 1 2", "x.toml:1:"},
  }};
  for (const auto& [text, expected] : cases) {
    const Thrown thrown = thrown_by(text);
    EXPECT_NE(thrown.text.find(expected), std::string::npos)
        << text.substr(0, 60) << "\ngives  " << thrown.text << "\nlacks  " << expected;
    EXPECT_EQ(thrown.status, Status::bad_content) << text.substr(0, 60);
    EXPECT_EQ(thrown.text.find('\n'), std::string::npos) << thrown.text;
  }
}

// A key of many parts nests as many tables, which are freed by recursion.
TEST(Deck, DeepNestingDoesNotExhaustTheStack) {
  std::string key = "a";
  for (int i = 0; i < 500'000; ++i) key += ".a";  // a deck has 1 MiB at most
  for (const std::string& text :
       {key + " = 1", "[" + key + "]", "x = { " + key + " = 1 }"})
    EXPECT_NE(problem(text).find("more than 16 parts"), std::string::npos);
  std::string nested = "1";
  for (int i = 0; i < 200; ++i) nested = "{a.a.a.a.a.a.a.a.a.a.a.a.a.a.a=" + nested + "}";
  EXPECT_NE(problem("x = " + nested).find("nested more than 32 deep"), std::string::npos);
  // Dots in comments and texts are no keys.
  parse(minimal + "# " + std::string(100, '.') + "\nrun.name = \"" +
        std::string(100, '.') + "\"");
}

TEST(Deck, LargeWrongFilesAreRefusedQuickly) {
  std::string text;
  for (int i = 0; i < 200'000; ++i) text += "k" + std::to_string(i) + " = 1\n";
  const Thrown thrown = thrown_by(text);
  EXPECT_NE(thrown.text.find("and 199901 more problems"), std::string::npos)
      << thrown.text.substr(thrown.text.size() - 100);
}

TEST(Deck, ByteOrderMarkAndCarriageReturns) {
  const Deck deck = parse("\xef\xbb\xbf[run]\r\nsteps = 5\r\nname = \"x\"\r\n");
  EXPECT_EQ(deck[steps], 5);
  EXPECT_EQ(deck[run_name], "x");
  EXPECT_EQ(problem("\xef\xbb\xbf[run]\r\nstep = 5\r\n").substr(0, 11), "x.toml:2:1:");
}

TEST(Deck, SizesAndTimes) {
  const std::array<std::pair<const char*, std::int64_t>, 6> sizes = {
      {{"25 MB", 25'000'000},
       {"25MB", 25'000'000},
       {"4 GiB", std::int64_t{4} << 30},
       {"1.5 KiB", 1536},
       {"7 B", 7},
       {"3 kB", 3000}}};
  for (const auto& [text, bytes] : sizes)
    EXPECT_EQ(parse(minimal, {std::string("data.cache=") + text})[cache], bytes);
  const auto times =
      std::to_array<std::pair<const char*, double>>({{"30 min", 1800},
                                                     {"90 s", 90},
                                                     {"2 h", 7200},
                                                     {"2 hours", 7200},
                                                     {"1 d", 86400},
                                                     {"12.5", 12.5},
                                                     {"250 ms", 0.25},
                                                     {"\"30:00\"", 1800},
                                                     {"\"1:30:05\"", 5405},
                                                     {"\"1-02:00:00\"", 93600},
                                                     {"\"2-12:30\"", 217800},
                                                     {"\"0-02:00\"", 7200},
                                                     {"\"1-12\"", 129600},
                                                     {"\"90:00\"", 5400}});
  for (const auto& [text, seconds] : times)
    EXPECT_EQ(parse(minimal, {std::string("run.limit=") + text})[limit], seconds);
  for (const char* wrong : {"\"-1 B\"", "\"9999999 PiB\"", "\"1e3 B\"", "\"4\"", "\" B\"",
                            "\"\"", "\"inf B\"", "\"nan B\"", "-1", "1.5"})
    EXPECT_EQ(thrown_by(minimal, {std::string("data.cache=") + wrong}).status,
              Status::command_line)
        << wrong;
  for (const char* wrong : {"\"1:90:00\"", "\"1:00:60\"", "\"1:2:3:4\"", "\"-1-2\"",
                            "\"1-\"", "\"2:x\"", "\"1-2-3\""})
    EXPECT_EQ(thrown_by(minimal, {std::string("run.limit=") + wrong}).status,
              Status::command_line)
        << wrong;
}

TEST(Deck, OverridesReplaceValuesOfTheFile) {
  // The last one counts; a wrong value in the file is gone once replaced.
  const Deck deck =
      parse("run.steps = \"wrong\"\nmodel.tied = true\n",
            {"run.steps=5", "run.steps = 6", "run.name=runs/a b=c",
             "data.paths=[\"a\", \"b\"]", "model.rate=.25e0", "model.rate=0.25"});
  EXPECT_EQ(deck[steps], 6);
  EXPECT_EQ(deck[run_name], "runs/a b=c");
  EXPECT_EQ(deck[paths].size(), 2u);
  EXPECT_TRUE(deck[tied]);
  EXPECT_EQ(deck.where("run.steps"), "command line");
}

TEST(Deck, OverridesThatTomlTakesForDates) {
  EXPECT_EQ(parse(minimal, {"run.limit=00:01:30"})[limit], 90.0);
  EXPECT_EQ(parse(minimal, {"run.name=2026-12-01"})[run_name], "2026-12-01");
}

TEST(Deck, WrongOverrides) {
  const std::array<std::array<std::string, 2>, 12> cases = {{
      {"model.heads", "command line: model.heads: expected section.key=value"},
      {"", "expected section.key=value"},
      {"=3", "unknown key"},
      {"model.head=3",
       "command line: model.head: unknown key; did you mean "
       "'model.heads'?"},
      {"heads=3", "did you mean 'model.heads'?"},
      {"model=3", "model: is a section; its keys are heads, kind, tied, rate"},
      {"model.heads=", "no value after '='"},
      {"model.heads=twelve",
       "command line: model.heads = \"twelve\": expected an integer"},
      {"data.paths=[\"a\"", "data.paths = [\"a\": not valid TOML"},
      {"run.name=\"a", "not valid TOML"},
      {"run.name=1\nrun.steps = 7", "must not contain control characters"},
      {"run.name=\xff\xfe", "not valid TOML"},
  }};
  for (const auto& [text, expected] : cases) {
    const Thrown thrown = thrown_by(minimal, {text});
    EXPECT_NE(thrown.text.find(expected), std::string::npos)
        << text << "\ngives  " << thrown.text << "\nlacks  " << expected;
    EXPECT_EQ(thrown.status, Status::command_line) << text;
  }
  EXPECT_EQ(thrown_by("", {"model.head=3"}).status, Status::bad_content);
}

TEST(Deck, OverrideEqualsEditingTheFile) {
  const std::string edited =
      parse("run.steps = 3\nmodel.rate = 0.125\ndata.paths = ['x y']\n").effective();
  EXPECT_EQ(parse(minimal, {"model.rate=0.125", "data.paths=['x y']"}).effective(),
            edited);
}

TEST(Deck, EffectiveDeckIsAFixedPoint) {
  const Deck deck = parse(
      minimal, {"run.name=\"a\\\\b \\\"c\\\" # é\"", "model.rate=0.1234567890123456789",
                "optimizer.betas=[1e-300, 1.0]", "debug.dump=[3, 1]",
                "data.paths=[\"#\", \"'\"]", "data.cache=3 MiB", "run.limit=\"1 h\""});
  const std::string text = deck.effective();
  const Deck again = Deck::parse(text, "effective.toml", {}, table);
  EXPECT_EQ(again.effective(), text);
  EXPECT_EQ(again[rate], 0.1234567890123456789);
  EXPECT_EQ(again[betas][0], 1e-300);
  EXPECT_EQ(again[run_name], "a\\b \"c\" # é");
  EXPECT_NE(text.find("cache = 3145728"), std::string::npos) << text;
  EXPECT_NE(text.find("limit = 3600.0"), std::string::npos) << text;
  EXPECT_NE(text.find("# Warm-up."), std::string::npos) << text;
}

TEST(Deck, LenientReadingKeepsProblems) {
  const Deck deck =
      Deck::parse_leniently("model.heads = 0\nmodel.tied = true", "x.toml", {}, table);
  EXPECT_EQ(deck.problems().size(), 2u);
  EXPECT_FALSE(deck.sound("model.heads"));
  EXPECT_FALSE(deck.sound("run.steps"));
  EXPECT_TRUE(deck.sound("model.tied"));
  EXPECT_EQ(deck[heads], 4);
  EXPECT_THROW(deck.require_sound(), Error);
}

TEST(Deck, Files) {
  const auto folder = std::filesystem::temp_directory_path() /
                      ("trireme_deck_test_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const auto status_of = [&](const std::string& name) {
    try {
      Deck::load(folder / name, {}, table);
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
      return error.status();
    }
    return Status::done;
  };
  std::ofstream(folder / "good.toml") << minimal;
  std::ofstream(folder / "empty.toml");
  std::ofstream(folder / "bad.toml") << "steps";
  std::ofstream(folder / "huge.toml") << std::string((1 << 20) + 1, '#');
  std::ofstream(folder / "large.toml")
      << minimal << "\n"
      << std::string((1 << 20) - minimal.size() - 1, '#');
  std::filesystem::create_directory(folder / "folder.toml");
  EXPECT_EQ(status_of("good.toml"), Status::done);
  EXPECT_EQ(status_of("empty.toml"), Status::bad_content);
  EXPECT_EQ(status_of("bad.toml"), Status::bad_content);
  EXPECT_EQ(status_of("huge.toml"), Status::bad_content);
  EXPECT_EQ(status_of("large.toml"), Status::done) << "1 MiB";
  // A deck that a checkpoint brings has room for every key, and an end too.
  const std::string stored = minimal + "\n" + std::string(2 << 20, '#');
  EXPECT_NO_THROW(Deck::parse(stored, "stored", {}, table));
  EXPECT_THROW(Deck::parse(stored + stored, "stored", {}, table), Error);
  EXPECT_EQ(status_of("folder.toml"), Status::missing_input);
  EXPECT_EQ(status_of("absent.toml"), Status::missing_input);
  EXPECT_EQ(io::nearest_deck_text(folder / "god.toml"),
            "; did you mean " + (folder / "good.toml").string() + "?");
  EXPECT_EQ(io::nearest_deck_text(folder / "large"),
            "; did you mean " + (folder / "large.toml").string() + "?");
  EXPECT_EQ(io::nearest_deck_text(folder / "absent.toml"), "");
  EXPECT_EQ(io::nearest_deck_text(folder / "none" / "good.toml"), "");
  std::filesystem::remove_all(folder);
}

// Whatever the bytes, reading ends in a deck or in an Error with a message.
TEST(Deck, RandomDamageGivesAnError) {
  const std::string whole = parse(minimal).effective();
  const Random random(7, hash_name("deck damage"));
  std::uint64_t draw = 0;
  int errors = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text = whole;
    const auto changes = 1 + random.below(draw++, 4);
    for (std::uint64_t c = 0; c < changes; ++c) {
      const auto at = random.below(draw++, text.size());
      switch (random.below(draw++, 3)) {
        case 0: text[at] = static_cast<char>(random.below(draw++, 256)); break;
        case 1: text.erase(at, 1 + random.below(draw++, 20)); break;
        default: text.insert(at, text.substr(random.below(draw++, text.size()), 9));
      }
    }
    const Thrown thrown = thrown_by(text);
    if (thrown.status == Status::done) continue;
    ++errors;
    EXPECT_EQ(thrown.status, Status::bad_content) << thrown.text;
    EXPECT_EQ(thrown.text.rfind("x.toml", 0), 0u) << thrown.text;
  }
  EXPECT_GT(errors, 500);
}

TEST(Deck, EditDistance) {
  EXPECT_EQ(io::edit_distance("", "abc"), 3);
  EXPECT_EQ(io::edit_distance("abc", ""), 3);
  EXPECT_EQ(io::edit_distance("heads", "heads"), 0);
  EXPECT_EQ(io::edit_distance("head", "heads"), 1);
  EXPECT_EQ(io::edit_distance("haeds", "heads"), 1);
  EXPECT_EQ(io::edit_distance("ca", "abc"), 3);  // 2 in the unrestricted distance
  EXPECT_EQ(io::edit_distance("kitten", "sitting"), 3);
}

TEST(Deck, Help) {
  const std::string help = io::describe_keys(table);
  EXPECT_NE(help.find("[optimizer.schedule]\n  warmup"), std::string::npos) << help;
  EXPECT_NE(help.find("required"), std::string::npos);
  const std::string page = io::describe_keys_markdown(table);
  EXPECT_NE(page.find("| `steps` | integer, steps | required | between 1 and 1000 | "
                      "Steps. |"),
            std::string::npos)
      << page;
}

}  // namespace
}  // namespace trireme
