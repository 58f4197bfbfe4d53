// Safetensors files: golden bytes, every rule of the header, boxes, shards, indices.
// SPDX-License-Identifier: Apache-2.0
#include "io/safetensors.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "io/safetensors_folder.hpp"

namespace trireme::io {
namespace {

class Safetensors : public testing::Test {
 protected:
  Safetensors() {
    std::string name = testing::TempDir() + "safetensors-XXXXXX";
    path_ = ::mkdtemp(name.data());
  }
  ~Safetensors() override { std::filesystem::remove_all(path_); }

  void put(const std::string& name, const std::string& content) const {
    std::ofstream(path_ + "/" + name, std::ios::binary) << content;
  }
  std::string get(const std::string& name) const {
    std::ifstream in(path_ + "/" + name, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  // What is wrong with a file of these bytes; "" if nothing is.
  std::string why(const std::string& content) const {
    put("x", content);
    return message([&] { read_safetensors(PlainFile(Directory(path_), "x")); });
  }
  template <class Work>
  static std::string message(const Work& work) {
    try {
      work();
      return "";
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::bad_content) << error.what();
      return error.what();
    }
  }

  std::string path_;
};

std::string with_length(const std::string& header, const std::string& data = "") {
  std::string out;
  for (int i = 0; i < 8; ++i)
    out.push_back(static_cast<char>(header.size() >> (8 * i) & 0xff));
  return out + header + data;
}

SafetensorsTensor tensor(const std::string& name, DType dtype,
                         std::vector<std::int64_t> extents) {
  return {name, &safetensors_type(dtype), std::move(extents), 0, 0};
}

// One tensor `w` of these fields.
std::string entry(const std::string& type, const std::string& shape,
                  const std::string& offsets) {
  return R"({"w":{"dtype":")" + type + R"(","shape":)" + shape + R"(,"data_offsets":)" +
         offsets + "}}";
}

TEST_F(Safetensors, WritesTheBytesOfTheReference) {
  const SafetensorsPlan plan({tensor("w", DType::f32, {2, 2})});
  EXPECT_EQ(plan.bytes(), 112);
  SafetensorsWriter writer(Directory(path_), "golden", plan);
  std::array<float, 4> values = {1, 2, 3, 4};
  writer.write(TensorView(values.data(), DType::f32, {2, 2}));
  writer.close();
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}})";
  EXPECT_EQ(get("golden"),
            with_length(header, std::string(reinterpret_cast<const char*>(values.data()),
                                            sizeof values)));
  const auto read = read_safetensors(PlainFile(Directory(path_), "golden"));
  ASSERT_EQ(read.tensors.size(), 1U);
  EXPECT_EQ(read.tensors[0].begin, 96);
  EXPECT_EQ(read.tensors[0].end, 112);
  EXPECT_EQ(read.metadata.at("format"), "pt");
}

TEST_F(Safetensors, SortsByTypeThenName) {
  const SafetensorsPlan plan({tensor("b", DType::bf16, {3}), tensor("a", DType::f32, {1}),
                              tensor("c", DType::i64, {1}),
                              tensor("a\"", DType::bf16, {2})});
  std::string order;
  for (const auto& each : plan.tensors()) order += each.name + " ";
  EXPECT_EQ(order, "c a a\" b ");
  EXPECT_EQ(plan.head().size() % 8, 0U);
  EXPECT_EQ(plan.tensors().front().begin, static_cast<std::int64_t>(plan.head().size()));
}

TEST_F(Safetensors, EmptyAndScalarTensorsAreLegal) {
  EXPECT_EQ(why(with_length(entry("F32", "[]", "[0,4]"), "1234")), "");
  EXPECT_EQ(why(with_length(entry("F32", "[0,7]", "[0,0]"))), "");
  EXPECT_EQ(why(with_length(entry("F4", "[2]", "[0,1]"), "1")), "");
  EXPECT_EQ(why(with_length("{}")), "");
  EXPECT_EQ(why(with_length("{}      ")), "");
}

TEST_F(Safetensors, EveryRuleIsChecked) {
  struct Case {
    std::string bytes, name;
  };
  const std::string good = entry("F32", "[1]", "[0,4]");
  const std::string huge(1, '\xff');
  const std::array cases = {
      Case{"1234567", "HeaderTooSmall"},
      Case{std::string("\x01\xe1\xf5\x05\0\0\0\0", 8), "HeaderTooLarge"},
      Case{std::string(8, '\xff'), "HeaderTooLarge"},
      Case{with_length(good).substr(0, 20), "InvalidHeaderLength"},
      Case{with_length("[]"), "InvalidHeaderStart"},
      Case{with_length(" {}"), "InvalidHeaderStart"},
      Case{with_length(""), "InvalidHeaderStart"},
      Case{with_length("{\"" + huge + "\":{}}"), "InvalidHeader)"},
      Case{with_length("{\"w\":"), "InvalidHeaderDeserialization"},
      Case{with_length("{} x"), "InvalidHeaderDeserialization"},
      Case{with_length(good.substr(0, good.size() - 1) + "," + good.substr(1), "1234"),
           "comes twice"},
      Case{with_length(entry("F33", "[1]", "[0,4]"), "1234"), "the type 'F33'"},
      Case{with_length(entry("F32", "[-1]", "[0,4]"), "1234"), "w.shape[0]"},
      Case{with_length(entry("F32", "[1.5]", "[0,4]"), "1234"), "w.shape[0]"},
      Case{with_length(entry("F32", "[1]", "[0]"), "1234"), "w.data_offsets"},
      Case{with_length(entry("F32", "[1]", "[4,0]"), "1234"), "TensorInvalidInfo"},
      Case{with_length(entry("F32", "[2]", "[0,4]"), "1234"), "TensorInvalidInfo"},
      Case{with_length(entry("F32", "[4611686018427387904,4]", "[0,4]"), "1234"),
           "ValidationOverflow"},
      Case{with_length(entry("F4", "[1]", "[0,1]"), "1"), "MisalignedSlice"},
      Case{with_length(good, "12345"), "MetadataIncompleteBuffer"},
      Case{with_length(good, "123"), "MetadataIncompleteBuffer"},
      Case{with_length(entry("F32", "[1]", "[4,8]"), "12345678"), "InvalidOffset"},
      Case{with_length(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                       R"("b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})",
                       "123456"),
           "InvalidOffset"},
      Case{with_length(R"({"w":5})"), "'w' must be an object"},
      Case{with_length(R"({"w":{"shape":[1],"data_offsets":[0,4]}})"), "w.dtype"},
      Case{with_length(R"({"__metadata__":{"a":1}})"), "__metadata__"},
  };
  for (const auto& [bytes, name] : cases) {
    const std::string found = why(bytes);
    EXPECT_NE(found.find(name), std::string::npos) << name << ": " << found;
    EXPECT_TRUE(found.starts_with(path_ + "/x: ")) << found;
  }
}

TEST_F(Safetensors, LinksAreFollowedAndPipesAreNotOpened) {
  put("real", with_length("{}"));
  ASSERT_EQ(::symlink("real", (path_ + "/model.safetensors").c_str()), 0);
  EXPECT_NO_THROW(SafetensorsFolder folder(path_));
  ASSERT_EQ(::unlink((path_ + "/real").c_str()), 0);
  EXPECT_NE(message([&] { SafetensorsFolder folder(path_); }).find("link to a file"),
            std::string::npos);
  ASSERT_EQ(::unlink((path_ + "/model.safetensors").c_str()), 0);
  ASSERT_EQ(::mkfifo((path_ + "/model.safetensors").c_str(), 0600), 0);
  EXPECT_NE(message([&] { SafetensorsFolder folder(path_); }).find("named pipe"),
            std::string::npos);
}

TEST_F(Safetensors, ReadsBoxesOfShards) {
  std::array<float, 6> a = {1, 2, 3, 4, 5, 6};
  std::array<std::int64_t, 2> b = {7, 8};
  for (const int part : {1, 2}) {
    SafetensorsWriter writer(Directory(path_),
                             format("model-0000{}-of-00002.safetensors", part),
                             SafetensorsPlan({part == 1 ? tensor("a", DType::f32, {2, 3})
                                                        : tensor("b", DType::i64, {2})}));
    if (part == 1) writer.write(TensorView(a.data(), DType::f32, {2, 3}));
    if (part == 2) writer.write(TensorView(b.data(), DType::i64, {2}));
    writer.close();
  }
  put("model.safetensors.index.json",
      R"({"metadata":{"total_size":1},"weight_map":{"a":"model-00001-of-00002.safetensors",)"
      R"("b":"model-00002-of-00002.safetensors"}})");
  SafetensorsFolder folder(path_);
  ASSERT_EQ(folder.tensors().size(), 2U);
  std::array<double, 2> out{};
  folder.read(*folder.find("a"), {0, 1}, TensorView(out.data(), DType::f64, {2, 1}));
  EXPECT_EQ(out[0], 2);
  EXPECT_EQ(out[1], 5);
  EXPECT_EQ(folder.find("c"), nullptr);
}

TEST_F(Safetensors, AnIndexStaysInItsFolder) {
  const auto refused = [&](const std::string& index) {
    put("model.safetensors.index.json", index);
    return message([&] { SafetensorsFolder folder(path_); });
  };
  put("shard", with_length(entry("F32", "[1]", "[0,4]"), "1234"));
  for (const char* name : {"../shard", "/etc/passwd", "", ".", ".."})
    EXPECT_NE(refused(format(R"({"weight_map":{"w":"{}"}})", name))
                  .find("no file of this folder"),
              std::string::npos)
        << name;
  const std::array<std::pair<const char*, const char*>, 7> cases = {{
      {R"({"weight_map":{"w":"gone"}})", "'gone' that it names is missing"},
      {R"({"weight_map":{"v":"shard"}})", "'v' is not in 'shard'"},
      {R"({"weight_map":{"w":"shard","w":"shard"}})", "comes twice"},
      {R"({"weight_map":{"w":5}})", "must be a text"},
      {R"({"weight_map":[]})", "is missing"},
      {R"({"metadata":{}})", "is missing"},
      {R"({"weight_map":)", "is no JSON"},
  }};
  for (const auto& [index, words] : cases)
    EXPECT_NE(refused(index).find(words), std::string::npos) << refused(index);
}

TEST_F(Safetensors, PickleIsRefusedAndNothingIsMissing) {
  EXPECT_THROW(
      try { SafetensorsFolder folder(path_); } catch (const Error& error) {
        EXPECT_EQ(error.status(), Status::missing_input);
        throw;
      },
      Error);
  put("pytorch_model.bin", "x");
  EXPECT_NE(message([&] { SafetensorsFolder folder(path_); }).find("pickle"),
            std::string::npos);
  const auto one_file = [&] { SafetensorsFolder folder(path_, "adapter.safetensors"); };
  put("adapter.bin", "x");
  EXPECT_NE(message(one_file).find("no adapter.safetensors here, and adapter.bin is a "
                                   "pickle file"),
            std::string::npos)
      << message(one_file);
}

TEST_F(Safetensors, TensorsAreCompared) {
  const auto two = [](const std::string& type) {
    return with_length(format(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                              R"("b":{"dtype":"{}","shape":[1],"data_offsets":[4,8]}})",
                              type),
                       "12341234");
  };
  const auto same = [&](const std::string& bytes) {
    put("model.safetensors", bytes);
    SafetensorsFolder folder(path_);
    return folder.are_same(*folder.find("a"), *folder.find("b"));
  };
  EXPECT_TRUE(same(two("F32")));
  EXPECT_FALSE(same(two("I32")));
  std::string other = two("F32");
  other.back() = '5';
  EXPECT_FALSE(same(other));
}

}  // namespace
}  // namespace trireme::io
