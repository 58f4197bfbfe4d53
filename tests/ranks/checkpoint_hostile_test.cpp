// Checkpoints of format 1 made or altered by somebody else, whose digests are right.
// SPDX-License-Identifier: Apache-2.0
// They are refused with file and entry, or read from the bytes that the manifest names.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "io/checkpoint_folder.hpp"
#include "io/checkpoint_manifest.hpp"
#include "io/checkpoint_removal.hpp"
#include "io/checkpoint_writer.hpp"
#include "io/digest.hpp"
#include "io/files.hpp"
#include "io/hdf5_file.hpp"
#include "support/checkpoint_tensors.hpp"
#include "support/format1.hpp"
#include "support/io_faults.h"
#include "support/written_checkpoint.hpp"

namespace trireme::io {
namespace {

namespace fs = std::filesystem;
using test::fake_info;
using test::fake_model;
using test::Memory;

constexpr std::int64_t limit = 1 << 24;

class HostileCheckpoint : public testing::Test {
 protected:
  HostileCheckpoint() {
    for (const std::int64_t step : {1, 2}) write(step);
    step_ = folder_.path() + "/step-00000002";
    test::make_format1(step_);
    manifest_ = read_text(step_ + "/manifest.json", limit);
  }
  void write(std::int64_t step) const {
    Memory memory;
    const auto boxes = test::fake_boxes(memory, 1, 1);
    test::write_checkpoint(test::world(), folder_.path(), fake_info(step), boxes, 0);
  }
  void put(const std::string& name, const std::string& text) const {
    std::ofstream(step_ + "/" + name, std::ios::binary | std::ios::trunc) << text;
  }
  // Puts the manifest there with a digest that fits.
  void seal(const std::string& text) const {
    const std::string body = text.substr(0, text.rfind(",\n \"digest\""));
    put("manifest.json", body + ",\n \"digest\": \"" + digest_of(body) + "\"\n}\n");
  }
  // The manifest with the first `from` after `after` replaced.
  std::string edited(const std::string& after, const std::string& from,
                     const std::string& to) const {
    std::string text = manifest_;
    const auto at = text.find(from, text.find(after));
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  }
  // The steps that are there after a start has cleared up.
  std::vector<std::int64_t> tidied() const {
    return steps_among(clear_leftovers(test::world(), folder_.path()));
  }
  // What reading everything says.
  std::string trouble() const {
    try {
      const CheckpointReader reader(step_);
      for (const auto& tensor : reader.tensors()) reader.digest(tensor.path);
      return "";
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::bad_content) << error.what();
      return error.what();
    }
  }
  void expect_trouble(const std::string& words) const {
    const std::string said = trouble();
    EXPECT_NE(said.find(words), std::string::npos) << words << ": " << said;
    EXPECT_EQ(said.find(step_), 0U) << said;
    EXPECT_EQ(said.find("json.exception"), std::string::npos) << said;
  }

  test::SharedFolder folder_;
  std::string step_, manifest_;
};

// Each number, name and list of the manifest, made absurd.
TEST_F(HostileCheckpoint, ManifestsSayWhichEntryIsWrong) {
  const struct {
    std::string after, from, to, words;
  } cases[] = {
      {"", "\"step\": 2", "\"step\": -2", "'step' must be an integer of 0 or more"},
      {"", "\"step\": 2", "\"step\": 1e300", "'step'"},
      {"", "\"step\": 2", "\"step\": 9223372036854775808", "'step'"},
      {"", "\"step\": 2", "\"stop\": 2", "'step' is missing"},
      {"", "\"tokens\": 2000", "\"tokens\": null", "'tokens'"},
      {"", "\"format_version\": 1", "\"format_version\": -1", "'format_version'"},
      {"", "\"data\": 2", "\"data\": 0", "'mesh.data'"},
      {"", "\"data\": 2", "\"data\": 2147483647", "'mesh.tensor'"},
      {"", "\"deck\": \"", "\"deck\": 7, \"d\": \"", "'deck' must be a text, not 7"},
      {"files", "checkpoint.h5", "../checkpoint.h5", "'files[0].name'"},
      {"files", "checkpoint.h5", "..", "'files[0].name'"},
      {"files", "checkpoint.h5", "manifest.json", "'files[0].name'"},
      {"files", "checkpoint.h5", "shard-00000.h5", "'files[1].name'"},
      {"files", "\"bytes\": ", "\"bytes\": -1", "'files[0].bytes'"},
      {"files", "\"xxh3_128\": \"", "\"xxh3_128\": \"g", "'files[0].xxh3_128'"},
      {"tensors", "\"dtype\": \"uint16\"", "\"dtype\": \"uint17\"", "'tensors[0].dtype'"},
      {"tensors", "data/order", "model/zzz", "'tensors[1].path'"},
      {"tensors", "data/order", "data/\\nor der", "'tensors[0].path'"},
      {"tensors", "\"shape\": [\n    9\n   ]", "\"shape\": 9",
       "'tensors[0].shape' must be a list, not 9"},
      {"tensors", "\"shape\": [\n    9\n   ]", "\"shape\": []", "'tensors[0].shape'"},
      {"tensors", "\"shape\": [\n    9\n   ]", "\"shape\": [9, 9, 9, 9, 9]",
       "'tensors[0].shape'"},
      {"tensors", "\"shape\": [\n    9\n   ]", "\"shape\": [-9]",
       "'tensors[0].shape[0]'"},
      {"tensors", "\"shape\": [\n    9\n   ]",
       "\"shape\": [4611686018427387904, 4611686018427387904]", "'tensors[0].shape'"},
      {"tensors", "\"shape\": [\n    9\n   ]", "\"shape\": [10]",
       "1 of the 10 elements of 'data/order' are written by no rank"},
      {"tensors", "\"shape\": [\n    9\n   ]", "\"shape\": [8]", "lies outside"},
      {"boxes", "\"file\": \"shard-00000.h5\"", "\"file\": \"/etc/passwd\"",
       "'tensors[0].boxes[0].file'"},
      {"boxes", "\"offset\": ", "\"offset\": 99", "'tensors[0].boxes[0].offset'"},
      {"boxes", "\"offset\": ", "\"offset\": -", "'tensors[0].boxes[0].offset'"},
      {"boxes", "\"begin\": [\n      0\n     ]", "\"begin\": [1]", "lies outside"},
      {"boxes", "\"begin\": [\n      0\n     ]", "\"begin\": [0, 0]", "lies outside"},
  };
  for (const auto& c : cases) {
    seal(edited(c.after, c.from, c.to));
    expect_trouble(c.words);
  }
  put("manifest.json", "");
  expect_trouble("manifest.json: damaged");
  seal(std::string(1 << 20, '[') + ",\n \"digest\"");
  expect_trouble("manifest.json: is no manifest");
  seal(manifest_);
  EXPECT_EQ(trouble(), "");
}

TEST_F(HostileCheckpoint, BoxesAreEveryElementOnce) {
  // The first box a second time.
  const auto begin = manifest_.find('{', manifest_.find("\"boxes\""));
  const auto end = manifest_.find('}', begin) + 1;
  const std::string box = manifest_.substr(begin, end - begin);
  seal(std::string(manifest_).insert(end, "," + box));
  expect_trouble("both write a part of 'data/order'");
}

TEST_F(HostileCheckpoint, FilesLieInTheFolder) {
  const std::string shard = step_ + "/shard-00000.h5", away = folder_.path() + "/away";
  fs::rename(shard, away);
  fs::create_symlink(away, shard);
  expect_trouble("shard-00000.h5: is a symbolic link");
  fs::remove(shard);
  ::mkfifo(shard.c_str(), 0600);
  expect_trouble("shard-00000.h5: is a named pipe");
  fs::remove(shard);
  fs::rename(away, shard);
  fs::remove(step_ + "/manifest.json");
  ::mkfifo((step_ + "/manifest.json").c_str(), 0600);
  expect_trouble("manifest.json: is a named pipe");
}

// HDF5 has no say in what is read: neither by what checkpoint.h5 maps, nor by a prefix.
TEST_F(HostileCheckpoint, TensorsComeFromTheManifestsBytes) {
  std::vector<std::string> before;
  {
    const CheckpointReader reader(step_);
    for (const auto& tensor : reader.tensors())
      before.push_back(reader.digest(tensor.path));
  }
  const std::string whole = step_ + "/" + whole_name;
  const auto old = file_digest(whole);
  const auto bytes = fs::file_size(whole);
  Hdf5File file(whole, Hdf5File::Mode::create);  // shows nothing
  file.write_attribute("/", "deck", std::string(100, 'x'));
  file.close();
  std::string text = manifest_;
  text.replace(text.find(old), old.size(), file_digest(whole));
  const std::string size = std::to_string(bytes);
  text.replace(text.find(size), size.size(), std::to_string(fs::file_size(whole)));
  seal(text);
  const CheckpointReader reader(step_);
  for (std::size_t i = 0; i < before.size(); ++i)
    EXPECT_EQ(reader.digest(reader.tensors()[i].path), before[i]);
}

// `manifest` as the first programs wrote it: without boxes.
std::string without_boxes(std::string manifest) {
  for (auto at = manifest.find(",\n   \"boxes\""); at != std::string::npos;
       at = manifest.find(",\n   \"boxes\"")) {
    const auto end = manifest.find("\n   ]", at);
    manifest.erase(at, end + 5 - at);
  }
  for (auto at = manifest.find(",\n   \"frame"); at != std::string::npos;
       at = manifest.find(",\n   \"frame"))
    manifest.erase(at, manifest.find('\n', at + 2) - at);
  return manifest;
}

TEST_F(HostileCheckpoint, FirstCheckpointsAreReadAsTheirMappingSays) {
  std::vector<std::string> before;
  {
    const CheckpointReader reader(step_);
    for (const auto& tensor : reader.tensors())
      before.push_back(reader.digest(tensor.path));
  }
  const std::string text = without_boxes(manifest_);
  ASSERT_EQ(text.find("boxes"), std::string::npos);
  seal(text);
  {
    const CheckpointReader reader(step_);
    for (std::size_t i = 0; i < before.size(); ++i)
      EXPECT_EQ(reader.digest(reader.tensors()[i].path), before[i]);
  }
  // Another file of the folder that the manifest does not list.
  fs::rename(step_ + "/shard-00000.h5", step_ + "/extra.h5");
  std::string lacks = text;
  const auto entry = lacks.find("  {\n   \"name\": \"shard-00000.h5\"");
  ASSERT_NE(entry, std::string::npos);
  const auto comma = lacks.rfind(',', entry);
  lacks.erase(comma, lacks.find('}', entry) + 1 - comma);
  seal(lacks);
  expect_trouble("shard-00000.h5");
}

// A save whose own file cannot be opened again has failed: it is no input that is
// missing.
TEST_F(HostileCheckpoint, ReadingBackFailsAsWritingDoes) {
  int failed = 0;
  for (int at = 1; at <= 8; ++at) {
    const std::string part = folder_.path() + "/.step-00000003.tmp";
    io_faults_arm(part.c_str(), io_fault_input, at, ENOENT);
    try {
      write(3);
    } catch (const Error& error) {
      ++failed;
      EXPECT_EQ(error.status(), Status::io) << error.what();
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
    io_faults_disarm();
    fs::remove_all(folder_.path() + "/step-00000003");
  }
  EXPECT_GE(failed, 2);  // the shard, and what shows tensors whole
}

// What a crash between two renames leaves of a checkpoint that was to be replaced.
TEST_F(HostileCheckpoint, WhatWasSetAsideComesBack) {
  const std::string aside = folder_.path() + "/.trash-step-00000002";
  fs::rename(step_, aside);
  fs::create_directories(folder_.path() + "/.step-00000002.tmp");
  fs::create_symlink("nowhere", folder_.path() + "/.latest.tmp");
  fs::remove(folder_.path() + "/latest");
  fs::create_symlink("step-00000001", folder_.path() + "/latest");
  EXPECT_EQ(tidied(), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(trouble(), "");
  EXPECT_FALSE(fs::exists(aside));
  point_latest(folder_.path(), "step-00000002");
  EXPECT_EQ(latest_target(folder_.path()), "step-00000002");
  EXPECT_EQ(names_in(folder_.path()).size(), 5U);  // . .. latest and two steps
  // An old one on its way out stays gone.
  fs::rename(folder_.path() + "/step-00000001", folder_.path() + "/.trash-step-00000001");
  EXPECT_EQ(tidied(), (std::vector<std::int64_t>{2}));
  EXPECT_EQ(names_in(folder_.path()).size(), 4U);
}

// The rename of a replacement fails: what stood there stands.
TEST_F(HostileCheckpoint, AFailedReplacementPutsTheOldOneBack) {
  const std::string temporary = folder_.path() + "/.step-00000002.tmp";
  EXPECT_THROW(publish(folder_.path(), temporary, "step-00000002"), Error);
  EXPECT_EQ(trouble(), "");
}

}  // namespace
}  // namespace trireme::io
