// Fill-in-the-middle: orders, shares, what a document loses, and rows of a source.
// SPDX-License-Identifier: Apache-2.0
#include "data/infilling.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/error.hpp"
#include "data/text_source.hpp"
#include "io/hdf5_file.hpp"
#include "io/token_writer.hpp"

namespace trireme::data {
namespace {

using Ids = std::vector<std::int32_t>;

// Characters, two merges, and the tokens of infilling: 6, 7, 8; 9 ends documents.
constexpr const char* toy = R"({"model":{"type":"BPE","vocab":{"a":0,"b":1,"c":2,"é":3,
  "ab":4,"bc":5,"<pre>":6,"<suf>":7,"<mid>":8,"<end>":9},"merges":["a b","b c"]},
  "decoder":{"type":"Fuse"},"added_tokens":[
  {"id":6,"content":"<pre>","special":true,"single_word":false,"lstrip":false,"rstrip":false,"normalized":false},
  {"id":7,"content":"<suf>","special":true,"single_word":false,"lstrip":false,"rstrip":false,"normalized":false},
  {"id":8,"content":"<mid>","special":true,"single_word":false,"lstrip":false,"rstrip":false,"normalized":false},
  {"id":9,"content":"<end>","special":true,"single_word":false,"lstrip":false,"rstrip":false,"normalized":false}]})";

io::InfillingConfig config_of(double rate, double spm) {
  return {rate, spm, {"<pre>", "<suf>", "<mid>"}};
}

Ids part(const Ids& ids, std::ptrdiff_t begin, std::ptrdiff_t end) {
  return {ids.begin() + begin, ids.begin() + end};
}
std::ptrdiff_t find(const Ids& ids, std::int32_t id) {
  return std::find(ids.begin(), ids.end(), id) - ids.begin();
}

TEST(Infilling, PutsTheMiddleLastAndTheSuffixPays) {
  const text::Tokenizer tokenizer(toy, "toy");
  const std::string text = "abcéabcabéccbaabbccéab";
  const Ids document = tokenizer.encode(text, text::SpecialTokens::leave_out);
  std::set<std::string> middles;
  for (const double spm : {0.0, 1.0}) {
    const Infilling infilling(config_of(1, spm), tokenizer, 3);
    for (std::int64_t sample = 0; sample < 300; ++sample) {
      const Ids out = infilling.apply(document, sample, 0);
      EXPECT_EQ(out, infilling.apply(document, sample, 0));
      ASSERT_LE(out.size(), document.size());
      if (out == document) continue;  // a middle that leaves no room
      const std::ptrdiff_t suf = find(out, 7), mid = find(out, 8), all = std::ssize(out);
      ASSERT_EQ(out[0], 6);
      ASSERT_LT(suf, mid);
      ASSERT_LT(mid, all);
      const std::string suffix = tokenizer.decode(part(out, suf + 1, mid), false);
      const std::string last = tokenizer.decode(part(out, mid + 1, all), false);
      if (spm == 0) {
        const std::string prefix = tokenizer.decode(part(out, 1, suf), false);
        const std::size_t at = text.find(prefix + last + suffix);
        EXPECT_NE(at, text.npos) << prefix << '|' << last << '|' << suffix;
        // The prefix loses its beginning only when the suffix has nothing left to lose.
        EXPECT_TRUE(at == 0 || suffix.empty());
        middles.insert(last);
      } else {
        EXPECT_EQ(suf, 1);
        EXPECT_NE(text.find(last + suffix), text.npos);
      }
    }
  }
  EXPECT_GT(middles.size(), 40u);
}

// Of n documents a share p is changed, within 5 standard deviations.
TEST(Infilling, ChangesTheSharesAskedFor) {
  const text::Tokenizer tokenizer(toy, "toy");
  const Infilling infilling(config_of(0.4, 0.25), tokenizer, 7);
  const Ids document(60, 0);
  constexpr int all = 4000;
  int changed = 0, suffix_first = 0;
  for (int i = 0; i < all; ++i) {
    const Ids out = infilling.apply(document, i / 10, i % 10);
    if (out[0] != 6) continue;
    ++changed;
    // Without a prefix both orders look alike: it is empty for 1 in 30 or so.
    suffix_first += out[1] == 7;
  }
  EXPECT_NEAR(changed, 0.4 * all, 5 * std::sqrt(all * 0.4 * 0.6));
  const double share = 0.25 + 0.75 / 31;
  EXPECT_NEAR(suffix_first, share * changed,
              5 * std::sqrt(changed * share * (1 - share)));
}

TEST(Infilling, CutsBetweenTokensWhereTextWouldGiveOthers) {
  const text::Tokenizer tokenizer(toy, "toy");
  const Infilling infilling(config_of(1, 0), tokenizer, 3);
  Ids document;
  for (int i = 0; i < 12; ++i) document.insert(document.end(), {0, 1});  // not "ab"
  for (std::int64_t sample = 0; sample < 50; ++sample) {
    const Ids out = infilling.apply(document, sample, 0);
    for (const std::int32_t id : out) EXPECT_NE(id, 4);
  }
}

TEST(Infilling, NeedsTheTokenizersTokens) {
  const text::Tokenizer tokenizer(toy, "toy");
  try {
    const Infilling infilling({0.5, 0.5, {"<pre>", "<none>", "<mid>"}}, tokenizer, 1);
    ADD_FAILURE() << "was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::bad_content);
    EXPECT_NE(std::string(error.what()).find("<none>"), std::string::npos);
  }
}

class InfilledRows : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = std::filesystem::temp_directory_path() /
                 format("trireme_infilling_{}", ::getpid());
    std::filesystem::create_directories(directory_);
    std::ofstream(directory_ / "toy.json") << toy;
    std::vector<std::uint16_t> ids;
    std::vector<std::int64_t> documents{0};
    for (int d = 0; d < 40; ++d) {
      for (int i = 0; i < 8 + d % 9; ++i)
        ids.push_back(static_cast<std::uint16_t>((i * i + d) % 4));
      ids.push_back(9);
      documents.push_back(std::ssize(ids));
    }
    const auto writer =
        io::make_token_writer(io::TokenFormat::llmc, (directory_ / "a.bin").string(),
                              {"", 10, 9}, std::ssize(ids));
    writer->add(TensorView(ids.data(), DType::u16, {std::ssize(ids)}));
    writer->close(documents);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  std::unique_ptr<io::SampleSource> open(io::Packing packing, double rate) const {
    return open_source({.kind = io::SourceKind::llmc,
                        .paths = {(directory_ / "a.bin").string()},
                        .sequence = 40,
                        .vocabulary = 10,
                        .seed = 5,
                        .tokenizer = (directory_ / "toy.json").string(),
                        .packing = packing,
                        .end_token = 9,
                        .infilling = config_of(rate, 0.5)});
  }

  // Of the rows above and of a file that says, or does not, which tokens are targets.
  std::unique_ptr<io::SampleSource> open_blend(bool masked) const {
    const std::string path = (directory_ / "part.h5").string();
    std::vector<std::int32_t> ids(100, 1), learned(100, 1);
    std::fill_n(learned.begin() + 50, 10, 0);
    io::Hdf5File h5(path, io::Hdf5File::Mode::create);
    h5.write("tokens", TensorView(ids.data(), DType::i32, {100}));
    if (masked) h5.write("loss_mask", TensorView(learned.data(), DType::i32, {100}));
    h5.close();
    return open_source(
        {.kind = io::SourceKind::blend,
         .paths = {},
         .sequence = 40,
         .vocabulary = 10,
         .seed = 5,
         .blend = {{0.8, io::SourceKind::llmc, (directory_ / "a.bin").string()},
                   {0.2, io::SourceKind::tokens, path}},
         .tokenizer = (directory_ / "toy.json").string(),
         .end_token = 9,
         .infilling = config_of(0.7, 0.5)});
  }

  std::filesystem::path directory_;
};

TEST_F(InfilledRows, AreRefusedWhereAnyPartOfABlendHasMasks) {
  EXPECT_GT(open_blend(false)->samples(), 2);
  try {
    open_blend(true);
    ADD_FAILURE() << "was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::bad_content);
    EXPECT_NE(std::string(error.what()).find("mark tokens that are no targets"),
              std::string::npos);
  }
}

TEST_F(InfilledRows, HaveTheSameDocumentsOneByOne) {
  for (const io::Packing packing :
       {io::Packing::none, io::Packing::concatenate, io::Packing::best_fit}) {
    const auto plain = open(packing, 0), source = open(packing, 0.7);
    ASSERT_EQ(plain->samples(), source->samples());
    const Ids::size_type row = 41;
    Ids before(row), after(row);
    int changed = 0;
    for (std::int64_t i = 0; i < source->samples(); ++i) {
      plain->sample(i, before);
      source->sample(i, after);
      changed += before != after;
      EXPECT_EQ(std::count(before.begin(), before.end(), 9),
                std::count(after.begin(), after.end(), 9));
      const io::SampleMarks marks = source->marks(i);
      ASSERT_EQ(marks.starts.empty(), packing != io::Packing::best_fit);
      // A document begins behind each end token, and with them the padding.
      for (std::size_t t = 1; t < marks.starts.size(); ++t) {
        EXPECT_EQ(marks.starts[t] != marks.starts[t - 1], after[t - 1] == 9) << t;
      }
      // What is missing is missing at the end.
      const auto gap = std::find(after.begin(), after.end(), io::ignore_index);
      EXPECT_EQ(std::count(gap, after.end(), io::ignore_index), after.end() - gap);
    }
    EXPECT_GT(changed, source->samples() / 2);
  }
}

}  // namespace
}  // namespace trireme::data
