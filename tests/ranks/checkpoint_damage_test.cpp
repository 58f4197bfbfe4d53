// Damaged checkpoints: flipped bits, swapped, missing, cut and edited files.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "io/checkpoint_find.hpp"
#include "io/checkpoint_index.hpp"
#include "io/checkpoint_manifest_json.hpp"
#include "io/digest.hpp"
#include "io/files.hpp"
#include "io/hdf5_file.hpp"
#include "support/checkpoint_tensors.hpp"
#include "support/listed_views.hpp"
#include "support/written_checkpoint.hpp"

namespace trireme::io {
namespace {

namespace fs = std::filesystem;
using test::fake_info;
using test::Memory;

constexpr std::int64_t limit = 1 << 24;

// A checkpoint of step 2 with one shard of one rank, and one of step 1. Their indices
// list the views, as those of older programs do.
class DamageTest : public testing::Test {
 protected:
  DamageTest() {
    for (const std::int64_t step : {1, 2}) {
      Memory memory;
      auto boxes = test::fake_boxes(memory, 1, 1);
      float other = static_cast<float>(step);
      boxes.push_back({"model/step", {1}, {0}, TensorView(&other, DType::f32, {1})});
      test::write_checkpoint(test::world(), folder_.path(), fake_info(step), boxes, 0);
      test::list_views(folder_.path() + "/" + step_name(step));
    }
    step_ = folder_.path() + "/step-00000002";
    for (const auto& entry : fs::directory_iterator(step_))
      names_.push_back(entry.path().filename());
    std::sort(names_.begin(), names_.end());
  }
  std::string path(const std::string& name) const { return step_ + "/" + name; }
  void put(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary | std::ios::trunc) << text;
  }
  std::string get(const std::string& name) const { return read_text(path(name), limit); }

  // An index, and a manifest that names it.
  void put_index(const std::string& bytes, const CheckpointInfo& info) const {
    put(index_name, bytes);
    put(manifest_name,
        manifest_text(info, {index_name, static_cast<std::int64_t>(bytes.size()),
                             digest_of(bytes), ""}));
  }
  // What opening says: "" if nothing is wrong.
  std::string trouble() const {
    try {
      const CheckpointReader reader(step_);
      return "";
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::bad_content) << error.what();
      return error.what();
    }
  }
  void expect_names(const std::string& name) const {
    EXPECT_NE(trouble().find(name), std::string::npos) << trouble();
  }

  test::SharedFolder folder_;
  std::string step_;
  std::vector<std::string> names_;
};

TEST_F(DamageTest, EveryFlippedBitIsFound) {
  ASSERT_EQ(names_, (std::vector<std::string>{"checkpoint.h5", "index.bin",
                                              "manifest.json", "shard-00000.h5"}));
  std::mt19937_64 random(1);
  for (int i = 0; i < 1000; ++i) {
    const auto& name = names_[static_cast<std::size_t>(i) % names_.size()];
    const std::string before = get(name);
    std::string text = before;
    const auto bit = random() % (text.size() * 8);
    text[bit / 8] = static_cast<char>(text[bit / 8] ^ (1 << (bit % 8)));
    put(name, text);
    EXPECT_NE(trouble().find(name), std::string::npos) << name << " bit " << bit;
    put(name, before);
  }
  EXPECT_EQ(trouble(), "");
}

TEST_F(DamageTest, FilesOfOtherSizeAbsentOrOfAnotherStepAreFound) {
  const std::string other = folder_.path() + "/step-00000001/";
  for (const auto& name : names_) {
    const std::string before = get(name);
    put(name, before.substr(0, before.size() - 1));
    expect_names(name);
    put(name, before + "x");
    expect_names(name);
    put(name, "");
    expect_names(name);
    std::string page = before;
    std::fill_n(page.begin(), std::min<std::size_t>(page.size(), 4096), '\0');
    put(name, page);
    expect_names(name);
    fs::remove(path(name));
    expect_names(name);
    put(name, before);
  }
  const std::string shard = get("shard-00000.h5");
  ASSERT_EQ(fs::file_size(other + "shard-00000.h5"), shard.size());
  put("shard-00000.h5", read_text(other + "shard-00000.h5", limit));
  expect_names("shard-00000.h5");
  put("shard-00000.h5", shard);
  put("shard-00001.h5", shard);
  expect_names("shard-00001.h5");
  fs::remove(path("shard-00001.h5"));
  put("notes.txt", "of a user");
  EXPECT_EQ(trouble(), "");
  put("manifest.json", read_text(other + "manifest.json", limit));
  EXPECT_NE(trouble(), "");
}

// The manifest with `from` replaced, and its digest made right when `sealed`.
std::string edited(std::string text, const std::string& from, const std::string& to,
                   bool sealed) {
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos);
  text.replace(at, from.size(), to);
  if (!sealed) return text;
  const auto seal = text.rfind(",\n \"digest\"");
  const std::string body = text.substr(0, seal);
  return body + ",\n \"digest\": \"" + digest_of(body) + "\"\n}\n";
}

TEST_F(DamageTest, EditedManifestsAreRefused) {
  const std::string before = get("manifest.json");
  put("manifest.json", edited(before, "\"step\": 2", "\"step\": 3", false));
  expect_names("manifest.json: damaged");
  put("manifest.json", edited(before, "index.bin", "../index.bin", true));
  expect_names("'index.name'");
  put("manifest.json", edited(before, "\"index\"", "\"indices\"", true));
  expect_names("manifest.json: is no manifest");
  put("manifest.json", edited(before, "\"bytes\": ", "\"bytes\": -", true));
  expect_names("'index.bytes'");
  put("manifest.json", std::string(200000, '['));
  expect_names("manifest.json");
}

// Each number and name of the index, made absurd, with digests that are right.
TEST_F(DamageTest, EditedIndicesAreRefused) {
  const Manifest whole = read_manifest(step_);
  const auto box = [](Manifest& m, const auto& change) {
    BoxRecord record = m.boxes.get(0, 0);
    change(record);
    m.boxes.set(0, 0, record);
  };
  const struct {
    std::function<void(Manifest&)> edit;
    std::string words;
  } cases[] = {
      {[](Manifest& m) { m.files[0].name = "../shard-00000.h5"; }, "is not the name"},
      {[](Manifest& m) { m.files[0].name = "index.bin"; }, "is not the name"},
      {[](Manifest& m) { m.files[0].name = "shards-x/shard-00000.h5"; },
       "is not the name"},
      {[](Manifest& m) { m.files[1].name = m.files[0].name; }, "is listed twice"},
      {[](Manifest& m) { m.files[0].bytes = -1; }, "has a size of -1"},
      {[](Manifest& m) { m.files[0].bytes += 1; }, "bytes, but"},
      {[](Manifest& m) { m.files.back().digest = std::string(32, '1'); }, "damaged"},
      {[](Manifest& m) { m.files[0].frame = std::string(32, '1'); }, "damaged"},
      {[](Manifest& m) { m.tensors[0].path = "model/zzz"; }, "are not sorted"},
      {[](Manifest& m) { m.tensors[0].path = "data/or der"; }, "spaces"},
      {[](Manifest& m) { m.tensors[0].shape = {-9}; }, "cannot have the shape"},
      {[](Manifest& m) { m.tensors[0].shape = {10}; }, "are written by no rank"},
      {[](Manifest& m) { m.tensors[0].shape = {8}; }, "lies outside"},
      {[](Manifest& m) { m.tensors[0].dtype = DType::f64; }, ""},
      {[](Manifest& m) { m.tensors[0].dtype = DType{99}; }, "element type of number 99"},
      {[&](Manifest& m) { box(m, [](auto& b) { b.file = 7; }); }, "lies in file 7 of 2"},
      {[&](Manifest& m) { box(m, [](auto& b) { b.offset = -1; }); }, "does not fit"},
      {[&](Manifest& m) { box(m, [](auto& b) { b.offset = INT64_MAX; }); },
       "does not fit"},
      {[&](Manifest& m) { box(m, [](auto& b) { b.offset += 1; }); }, ""},
      {[&](Manifest& m) { box(m, [](auto& b) { b.begin[0] = 1; }); }, "lies outside"},
      {[&](Manifest& m) { box(m, [](auto& b) { b.begin[0] = INT64_MIN; }); },
       "lies outside"},
      {[&](Manifest& m) { box(m, [](auto& b) { b.extent[0] = 0; }); }, "does not fit"},
      {[&](Manifest& m) { box(m, [](auto& b) { b.extent[0] = INT64_MAX; }); },
       "does not fit"},
      {[&](Manifest& m) { box(m, [](auto& b) { b.digest[3] ^= 1; }); }, "damaged in"},
  };
  for (const auto& c : cases) {
    Manifest edited = whole;
    c.edit(edited);
    put_index(index_bytes(edited), edited.info);
    const std::string said = trouble();
    EXPECT_NE(said, "") << c.words;
    EXPECT_EQ(said.find(step_), 0U) << said;
    EXPECT_NE(said.find(c.words), std::string::npos) << c.words << ": " << said;
  }
  put_index(index_bytes(whole), whole.info);
  EXPECT_EQ(trouble(), "");
}

// Whatever bytes an index has, it is refused or read, and nothing falls over.
TEST_F(DamageTest, IndicesOfAnyBytesAreRefused) {
  const Manifest whole = read_manifest(step_);
  const std::string before = index_bytes(whole);
  for (std::size_t bytes = 0; bytes < before.size(); bytes += 7) {
    put_index(before.substr(0, bytes), whole.info);
    EXPECT_NE(trouble(), "") << bytes;
  }
  put_index(before + "x", whole.info);
  EXPECT_NE(trouble(), "");
  std::mt19937_64 random(3);
  for (int i = 0; i < 400; ++i) {
    std::string text = before;
    for (int n = 0; n < 4; ++n)
      text[random() % text.size()] = std::string("\x00\x01\x7f\x80\xff", 5)[random() % 5];
    put_index(text, whole.info);
    trouble();
  }
}

TEST_F(DamageTest, NewerVersionsNameTheirWriter) {
  const std::string before = get("manifest.json");
  for (const bool sealed : {true, false}) {
    put("manifest.json",
        edited(before, "\"format_version\": 2", "\"format_version\": 3", sealed));
    expect_names("format version 3 was written by Trireme 1.2.3");
  }
}

// Going back in silence would lose steps.
TEST_F(DamageTest, TheNewestIsNeverPassedOver) {
  fs::remove(folder_.path() + "/latest");
  EXPECT_EQ(find_checkpoint(folder_.path()), step_);
  fs::remove(path("shard-00000.h5"));
  const auto refusal = [&](const auto& work) -> std::string {
    try {
      work();
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::bad_content);
      return error.what();
    }
    return "nothing";
  };
  const std::string expected =
      path("shard-00000.h5") +
      ": missing from the checkpoint: " + "No such file or directory";
  EXPECT_EQ(refusal([&] { find_checkpoint(folder_.path()); }).find(expected), 0U);
  EXPECT_EQ(
      refusal([&] { const CheckpointReader reader(folder_.path()); }).find(expected), 0U);
  EXPECT_EQ(CheckpointReader(folder_.path() + "/step-00000001").info().step, 1);
}

TEST(CheckpointReader, SaysWhenThereIsNone) {
  const test::SharedFolder folder;
  for (const auto& path : {folder.path(), folder.path() + "/none"}) {
    try {
      const CheckpointReader reader(path);
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::missing_input);
      EXPECT_NE(std::string(error.what()).find(path), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace trireme::io
