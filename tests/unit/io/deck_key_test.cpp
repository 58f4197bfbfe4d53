// Key objects: what they read from a deck, and words with what they stand for.
// SPDX-License-Identifier: Apache-2.0
#include "io/deck_key.hpp"

#include <gtest/gtest.h>

#include <array>

#include "io/deck.hpp"

namespace trireme {
namespace {

enum class Shape : std::uint8_t { flat, round };

constexpr io::Key<std::int64_t> heads{
    {"model", "heads", io::KeyType::integer, "", "4", 1, 100, "", "Heads."}};
constexpr io::Key<std::string> name{
    {"model", "name", io::KeyType::text, "", "\"run\"", 0, 0, "", "Name."}};
constexpr io::Key<std::vector<double>> rates{
    {"model", "rates", io::KeyType::reals, "", "[0.5]", 0, 1, "", "Rates."}};
constexpr io::WordKey<Shape> shape{
    {"model", "shape", io::KeyType::text, "", "\"round\"", 0, 0, "", "Shape."},
    {{"flat", Shape::flat}, {"round", Shape::round}}};
// Its type contradicts what it is read as.
constexpr io::Key<bool> wrong{
    {"model", "heads", io::KeyType::integer, "", "4", 1, 100, "", "Heads."}};
constexpr io::Key<bool> absent{
    {"model", "absent", io::KeyType::boolean, "", "true", 0, 0, "", "Absent."}};

const std::array<io::DeckKey, 4> table = {heads, name, rates, shape};

io::Deck parse(const std::string& text) {
  return io::Deck::parse_leniently(text, "x.toml", {}, table);
}

TEST(DeckKey, ObjectsReadTheirValue) {
  const io::Deck deck = parse("model.heads = 7\nmodel.rates = [0.25, 1]\n");
  EXPECT_EQ(deck[heads], 7);
  EXPECT_EQ(deck[name], "run");
  EXPECT_EQ(deck[rates], (std::vector{0.25, 1.0}));
  EXPECT_TRUE(deck.given(heads));
  EXPECT_FALSE(deck.given(name));
  EXPECT_EQ(deck.where(heads), "x.toml:1:15");
  EXPECT_EQ(deck.value_text(rates), "[0.25, 1.0]");
  EXPECT_THROW(deck[wrong], Error);
  EXPECT_THROW(deck[absent], Error);
}

TEST(DeckKey, WordsStandForSomething) {
  EXPECT_EQ(shape.choices, "flat|round");
  EXPECT_EQ(parse("")[shape], Shape::round);
  EXPECT_EQ(parse("model.shape = \"flat\"")[shape], Shape::flat);
  // What is not sound reads as the default.
  const io::Deck deck = parse("model.shape = \"square\"");
  EXPECT_FALSE(deck.sound(shape));
  EXPECT_EQ(deck[shape], Shape::round);
  EXPECT_THROW(shape.meaning("square"), Error);
  EXPECT_EQ(shape.words().size(), 2U);
  EXPECT_EQ(shape.word_for(Shape::round), "round");
  EXPECT_THROW(shape.word_for(Shape{7}), Error);
}

TEST(DeckKey, DefaultsAreKnownHoweverTheyAreWritten) {
  EXPECT_TRUE(parse("").is_default(rates));
  EXPECT_TRUE(parse("model.rates = [5e-1]").is_default(rates));
  EXPECT_FALSE(parse("model.rates = []").is_default(rates));
  EXPECT_TRUE(parse("model.shape = \"round\"").is_default(shape));
  EXPECT_FALSE(parse("model.shape = \"flat\"").is_default(shape));
}

}  // namespace
}  // namespace trireme
