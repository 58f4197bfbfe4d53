// Hdf5File: round trips of every type, conversion, strides, virtual datasets, failures.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "io/files.hpp"
#include "io/hdf5_file.hpp"

namespace trireme::io {
namespace {

class Hdf5Test : public testing::Test {
 protected:
  Hdf5Test() {
    std::string name = std::filesystem::temp_directory_path() / "trireme-hdf5-XXXXXX";
    folder_ = ::mkdtemp(name.data());
  }
  ~Hdf5Test() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }

  std::string folder_;
};

template <class T>
TensorView view_of(std::vector<T>& values, const Shape& shape) {
  return {values.data(), dtype_of<T>, shape};
}

template <class F>
Status status_of(const F& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.status();
  }
  return Status::done;
}

template <class T>
void round_trip(Hdf5File& file, const std::string& name) {
  std::vector<T> values(6);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if constexpr (std::is_arithmetic_v<T>)
      values[i] = static_cast<T>(i * 17 + 3);
    else
      values[i] = T(static_cast<float>(i) * 1.5f - 3.0f);
  }
  file.write(name, view_of(values, {2, 3}));
  std::vector<T> back(6);
  file.read_all(name, view_of(back, {2, 3}));
  EXPECT_EQ(std::memcmp(values.data(), back.data(), sizeof(T) * 6), 0) << name;
  const auto [dtype, shape] = file.describe(name);
  EXPECT_EQ(dtype, dtype_of<T>) << name;
  EXPECT_EQ(shape, (Shape{2, 3})) << name;
}

// HDF5 has one file beneath both.
TEST_F(Hdf5Test, AFileIsOpenTwiceAndClosedInEitherOrder) {
  std::vector<std::int32_t> values = {1, 2, 3};
  Hdf5File(path("a"), Hdf5File::Mode::create).write("x", view_of(values, {3}));
  for (const bool first_goes_first : {true, false}) {
    auto first = std::make_unique<Hdf5File>(path("a"), Hdf5File::Mode::read);
    auto second = std::make_unique<Hdf5File>(path("a"), Hdf5File::Mode::read);
    (first_goes_first ? first : second).reset();
    std::vector<std::int32_t> read(3);
    (first_goes_first ? second : first)->read_all("x", view_of(read, {3}));
    EXPECT_EQ(read, values);
  }
}

TEST_F(Hdf5Test, EveryTypeRoundTrips) {
  Hdf5File file(path("a.h5"), Hdf5File::Mode::create);
  round_trip<double>(file, "/floats/double");
  round_trip<float>(file, "floats/float");
  round_trip<BFloat16>(file, "floats/bf16");
  round_trip<Float16>(file, "floats/fp16");
  round_trip<std::int64_t>(file, "ints/i64");
  round_trip<std::int32_t>(file, "ints/i32");
  round_trip<std::uint16_t>(file, "ints/u16");
  std::vector<std::uint8_t> bytes = {1, 255, 0};
  file.write("ints/u8", TensorView(bytes.data(), DType::u8, {3}));
  EXPECT_EQ(file.describe("ints/u8").first, DType::u8);
  file.close();
  const Hdf5File again(path("a.h5"), Hdf5File::Mode::read);
  EXPECT_EQ(again.datasets(),
            (std::vector<std::string>{"floats/bf16", "floats/double", "floats/float",
                                      "floats/fp16", "ints/i32", "ints/i64", "ints/u16",
                                      "ints/u8"}));
  EXPECT_TRUE(again.has("/ints/u8"));
  EXPECT_FALSE(again.has("ints/u9"));
  EXPECT_FALSE(again.has("none/u8"));
}

TEST_F(Hdf5Test, FloatsConvertToNearestEven) {
  Hdf5File file(path("a.h5"), Hdf5File::Mode::create);
  // 1 + 2^-8 lies half way between two bfloat16 values; the even one is 1. The next f32
  // above it rounds up. 70000 is beyond fp16.
  std::vector<float> values = {1.0f + 0x1p-8f, 1.0f + 0x1p-8f + 0x1p-23f, -3.5f, 70000.0f,
                               NAN};
  file.write("x", view_of(values, {5}));
  std::vector<BFloat16> brain(5);
  file.read_all("x", view_of(brain, {5}));
  EXPECT_EQ(static_cast<float>(brain[0]), 1.0f);
  EXPECT_EQ(static_cast<float>(brain[1]), 1.0f + 0x1p-7f);
  EXPECT_EQ(static_cast<float>(brain[2]), -3.5f);
  EXPECT_TRUE(std::isnan(static_cast<float>(brain[4])));
  std::vector<Float16> half(5);
  file.read_all("x", view_of(half, {5}));
  EXPECT_EQ(static_cast<float>(half[0]), 1.0f + 0x1p-8f);
  EXPECT_TRUE(std::isinf(static_cast<float>(half[3])));
  file.write("b", view_of(brain, {5}));
  std::vector<double> wide(5);
  file.read_all("b", view_of(wide, {5}));
  EXPECT_EQ(wide[1], 1.0 + 0x1p-7);
  std::vector<double> tenth = {0.1};
  file.write("d", view_of(tenth, {1}));
  std::vector<float> narrow(1);
  file.read_all("d", view_of(narrow, {1}));
  EXPECT_EQ(narrow[0], 0.1f);
}

TEST_F(Hdf5Test, IntegersConvertAndKindsDoNotMix) {
  Hdf5File file(path("a.h5"), Hdf5File::Mode::create);
  std::vector<std::int64_t> values = {-1, 70000, std::int64_t{1} << 40};
  file.write("x", view_of(values, {3}));
  std::vector<std::int32_t> small(3);
  file.read_all("x", view_of(small, {3}));
  EXPECT_EQ(small, (std::vector<std::int32_t>{-1, 70000, INT32_MAX}));
  std::vector<float> floats(3);
  EXPECT_EQ(status_of([&] { file.read_all("x", view_of(floats, {3})); }),
            Status::bad_content);
}

// Columns of a matrix, wide enough that several blocks are staged.
TEST_F(Hdf5Test, StridedBoxesPassThroughStaging) {
  constexpr std::int64_t R = 3000, C = 700;
  std::vector<double> values(R * C);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
  const auto whole = view_of(values, {R, C});
  Hdf5File file(path("a.h5"), Hdf5File::Mode::create);
  file.write("left", whole.columns(0, 300));
  file.create("rows", DType::f64, {R, C});
  file.write_rows("rows", 1000, whole.rows(1000, 2000));
  file.write_rows("rows", 0, whole.rows(0, 1000));
  std::vector<double> back(R * C, -1);
  file.read("left", {0, 0}, view_of(back, {R, C}).columns(10, 300));
  for (std::int64_t r = 0; r < R; ++r) {
    ASSERT_EQ(back[std::size_t(r * C + 9)], -1) << r;
    ASSERT_EQ(back[std::size_t(r * C + 10)], values[std::size_t(r * C)]) << r;
    ASSERT_EQ(back[std::size_t(r * C + 309)], values[std::size_t(r * C + 299)]) << r;
    ASSERT_EQ(back[std::size_t(r * C + 310)], -1) << r;
  }
  std::vector<float> box(2 * 3);
  file.read("rows", {998, 697}, view_of(box, {2, 3}));
  EXPECT_EQ(box[0], 998.0f * C + 697);
  EXPECT_EQ(box[5], 999.0f * C + 699);
  EXPECT_EQ(status_of([&] {
              file.read("rows", {2999, 0}, view_of(box, {2, 3}));
            }),
            Status::bad_content);
}

TEST_F(Hdf5Test, EmptyTensorsAndAttributes) {
  const std::string long_text(100000, 'x');
  {
    Hdf5File file(path("a.h5"), Hdf5File::Mode::create);
    file.create("none", DType::f32, {0, 4});
    file.write_attribute("/", "deck", long_text);
    file.write_attribute("/", "empty", "");
    file.write_attribute("none", "step", std::int64_t{1} << 50);
    file.close();
  }
  const Hdf5File file(path("a.h5"), Hdf5File::Mode::read);
  EXPECT_EQ(file.describe("none").second, (Shape{0, 4}));
  EXPECT_EQ(file.text_attribute("/", "deck"), long_text);
  EXPECT_EQ(file.text_attribute("/", "empty"), "");
  EXPECT_EQ(file.integer_attribute("none", "step"), std::int64_t{1} << 50);
  EXPECT_EQ(status_of([&] { file.text_attribute("/", "absent"); }), Status::bad_content);
  EXPECT_EQ(status_of([&] { file.integer_attribute("/", "deck"); }), Status::bad_content);
}

TEST_F(Hdf5Test, VirtualDatasetsShowPieces) {
  std::vector<float> left = {1, 2, 3, 4}, right = {5, 6};
  for (const auto& [name, values, shape] : {std::tuple{"l.h5", &left, Shape{2, 2}},
                                            std::tuple{"r.h5", &right, Shape{2, 1}}}) {
    Hdf5File file(path(name), Hdf5File::Mode::create);
    file.write("part", view_of(*values, shape));
    file.close();
  }
  Hdf5File whole(path("w.h5"), Hdf5File::Mode::create);
  whole.create_virtual(
      "x", DType::f32, {2, 3},
      {{"l.h5", "/part", {0, 0}, {2, 2}}, {"r.h5", "/part", {0, 2}, {2, 1}}});
  whole.close();
  std::filesystem::rename(folder_, folder_ + "-moved");
  folder_ += "-moved";
  const Hdf5File file(path("w.h5"), Hdf5File::Mode::read);
  std::vector<float> all(6);
  file.read_all("x", view_of(all, {2, 3}));
  EXPECT_EQ(all, (std::vector<float>{1, 2, 5, 3, 4, 6}));
}

TEST_F(Hdf5Test, EqualContentGivesEqualBytes) {
  for (const auto* name : {"a.h5", "b.h5"}) {
    Hdf5File file(path(name), Hdf5File::Mode::create);
    std::vector<float> values = {1, 2, 3};
    for (int i = 0; i < 20; ++i)
      file.write(format("group{}/deep/x{}", i % 3, i), view_of(values, {3}));
    file.write_attribute("/", "step", std::int64_t{3});
    file.close();
    if (name[0] == 'a') ::sleep(1);  // HDF5 counts time in seconds
  }
  EXPECT_EQ(file_digest(path("a.h5")), file_digest(path("b.h5")));
}

TEST_F(Hdf5Test, WrongFilesAreNamed) {
  const auto open = [&](const std::string& name, Hdf5File::Mode mode) {
    return status_of([&] { const Hdf5File file(name, mode); });
  };
  using enum Hdf5File::Mode;
  EXPECT_EQ(open(path("absent.h5"), read), Status::missing_input);
  EXPECT_EQ(open(folder_, read), Status::bad_content);
  std::ofstream(path("text.h5")) << "no HDF5";
  EXPECT_EQ(open(path("text.h5"), read), Status::bad_content);
  EXPECT_EQ(open(path("none/a.h5"), create), Status::cannot_create);
  EXPECT_EQ(open(folder_, create), Status::cannot_create);
  try {
    const Hdf5File file(path("absent.h5"), read);
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()),
              path("absent.h5") + ": No such file or directory");
  }
}

TEST_F(Hdf5Test, FullDeviceIsReportedAndHdf5Survives) {
  // A limit on the size of files stands for a full disk.
  std::vector<float> values(1 << 20);
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  rlimit small = before;
  small.rlim_cur = 100000;
  ::signal(SIGXFSZ, SIG_IGN);
  ::setrlimit(RLIMIT_FSIZE, &small);
  std::string message;
  try {
    Hdf5File file(path("big.h5"), Hdf5File::Mode::create);
    file.write("x", view_of(values, {1 << 20}));
    file.close();
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::io);
    message = error.what();
  }
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(message,
            path("big.h5") +
                ": write failed at the dataset 'x': File too large; the limit is 100000 "
                "bytes in a file (ulimit -f)");
  Hdf5File file(path("big.h5"), Hdf5File::Mode::create);
  file.write("x", view_of(values, {1 << 20}));
  file.close();
  EXPECT_GT(std::filesystem::file_size(path("big.h5")), values.size() * 4);
}

}  // namespace
}  // namespace trireme::io
