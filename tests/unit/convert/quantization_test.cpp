// Quantized weights: the numbers of every code and box, by their definition, to the bit.
// SPDX-License-Identifier: Apache-2.0
#include "convert/quantization.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <optional>

#include "base/directory.hpp"

namespace trireme::convert {
namespace {

using Bytes = std::vector<std::uint8_t>;
using Floats = std::vector<float>;

// E4M3 by its definition: sign, four bits of exponent with bias 7, three of mantissa.
float e4m3(unsigned code) {
  const int exponent = static_cast<int>(code >> 3) & 15;
  const double mantissa = static_cast<double>(code & 7u) / 8;
  const double size =
      exponent == 0 ? std::ldexp(mantissa, -6) : std::ldexp(1 + mantissa, exponent - 7);
  return static_cast<float>((code & 128u) != 0 ? -size : size);
}
constexpr float e2m1[] = {0,    0.5F,  1,  1.5F,  2,  3,  4,  6,
                          -0.F, -0.5F, -1, -1.5F, -2, -3, -4, -6};

// A folder of one file with two tensors, codes and scales.
class Folder {
 public:
  Folder() {
    std::string name =
        (std::filesystem::temp_directory_path() / "trireme.XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  template <class S>
  void write(DType code_type, const Shape& code_shape, const Bytes& codes,
             DType scale_type, const std::vector<std::int64_t>& scale_extents,
             const std::vector<S>& scales) {
    std::vector<std::int64_t> extents;
    for (int i = 0; i < code_shape.rank(); ++i) extents.push_back(code_shape[i]);
    const io::SafetensorsPlan plan(
        {{"codes", &io::safetensors_type(code_type), extents, 0, 0},
         {"scales", &io::safetensors_type(scale_type), scale_extents, 0, 0}});
    io::SafetensorsWriter writer(Directory(path_), io::safetensors_name, plan);
    for (const auto& tensor : plan.tensors()) {
      if (tensor.name == "codes") {
        Bytes copy = codes;
        writer.write(TensorView(copy.data(), code_type, code_shape));
      } else {
        std::vector<S> copy = scales;
        writer.write(TensorView(copy.data(), scale_type,
                                {static_cast<std::int64_t>(copy.size())}));
      }
    }
    writer.close();
    files_.emplace(path_);
  }

  QuantizedTensor tensor(const Quantization& how) {
    return {how, files_->find("codes"), files_->find("scales")};
  }
  Floats read(const Quantization& how, const FolderPlace& place, const Shape& begin,
              const Shape& extent) {
    Floats out(static_cast<std::size_t>(extent.elements()));
    read_quantized(*files_, tensor(how), place, begin,
                   TensorView(out.data(), DType::f32, extent));
    return out;
  }
  io::SafetensorsFolder& files() { return *files_; }

 private:
  std::string path_;
  std::optional<io::SafetensorsFolder> files_;
};

Bytes some_codes(std::int64_t count, unsigned factor) {
  Bytes codes;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto code = static_cast<std::uint8_t>(static_cast<unsigned>(i) * factor);
    codes.push_back((code & 0x7f) == 0x7f ? 0 : code);  // no E4M3 number
  }
  return codes;
}

// Every box of a matrix [rows, columns] is that part of it.
template <class Value, class Read>
void expect_boxes(std::int64_t rows, std::int64_t columns, const Value& value,
                  const Read& read) {
  for (const std::int64_t i0 : {std::int64_t{0}, rows / 2, rows - 1})
    for (const std::int64_t j0 : {std::int64_t{0}, columns / 3, columns - 1}) {
      const Shape extent = {rows - i0, columns - j0};
      const Floats box = read(Shape{i0, j0}, extent);
      for (std::int64_t i = 0; i < extent[0]; ++i)
        for (std::int64_t j = 0; j < extent[1]; ++j)
          ASSERT_EQ(box[static_cast<std::size_t>(i * extent[1] + j)],
                    value(i0 + i, j0 + j))
              << i0 << " " << j0 << " " << i << " " << j;
    }
}

TEST(Quantization, Fp8InBlocksOfWhichTheLastAreCutShort) {
  constexpr std::int64_t rows = 37, columns = 50, block = 16;
  const Bytes codes = some_codes(rows * columns, 7);
  Floats scales;
  for (int i = 0; i < 3 * 4; ++i) scales.push_back(0.01F * static_cast<float>(i + 1));
  Folder folder;
  folder.write(DType::e4m3, {rows, columns}, codes, DType::f32, {3, 4}, scales);
  const Quantization how{Quantization::Kind::fp8, block, block};
  const FolderPlace place{"codes", {rows, columns}};
  EXPECT_EQ(why_unusable(folder.tensor(how), place, {rows, columns}), "");
  const auto value = [&](std::int64_t i, std::int64_t j) {
    const unsigned code = codes[static_cast<std::size_t>(i * columns + j)];
    return e4m3(code) * scales[static_cast<std::size_t>(i / block * 4 + j / block)];
  };
  expect_boxes(rows, columns, value, [&](const Shape& begin, const Shape& extent) {
    return folder.read(how, place, begin, extent);
  });
  EXPECT_NE(
      why_unusable(folder.tensor({Quantization::Kind::fp8, 8, 8}), place, {rows, columns})
          .find("'scales' has the shape [3, 4], where [5, 7]"),
      std::string::npos);
  EXPECT_NE(why_unusable(folder.tensor(how), place, {rows, 51}), "");
}

TEST(Quantization, Fp8WithOneScale) {
  Bytes codes(256);
  for (unsigned code = 0; code < 256; ++code)
    codes[code] = static_cast<std::uint8_t>(code);
  Folder folder;
  folder.write(DType::e4m3, {2, 128}, codes, DType::f32, {}, Floats{0.3F});
  const Quantization how{Quantization::Kind::fp8};
  const FolderPlace place{"codes", {2, 128}};
  EXPECT_EQ(why_unusable(folder.tensor(how), place, {2, 128}), "");
  const Floats all = folder.read(how, place, {0, 0}, {2, 128});
  for (unsigned code = 0; code < 256; ++code) {
    if ((code & 0x7fu) == 0x7fu) {
      EXPECT_TRUE(std::isnan(all[code])) << code;
    } else {
      EXPECT_EQ(all[code], e4m3(code) * 0.3F) << code;
    }
  }
  EXPECT_EQ(all[0x7e], 448 * 0.3F);
  EXPECT_EQ(all[0xc2], -2.5F * 0.3F);
  EXPECT_EQ(all[0x01], 0x1p-9F * 0.3F);
  const Quantization blocks{Quantization::Kind::fp8, 128, 128};
  EXPECT_NE(why_unusable(folder.tensor(blocks), place, {2, 128}), "");
}

// Two experts; of each row of the model's tensor every second one is another's.
TEST(Quantization, Mxfp4OfStackedExperts) {
  constexpr std::int64_t experts = 2, rows = 3, columns = 96, blocks = 3;
  const Bytes codes = some_codes(experts * 2 * rows * blocks * 16, 11);
  Bytes scales;
  for (int i = 0; i < experts * 2 * rows * blocks; ++i)
    scales.push_back(static_cast<std::uint8_t>(i == 0 ? 0 : 110 + i));
  Folder folder;
  folder.write(DType::u8, {experts, 2 * rows, blocks, 16}, codes, DType::u8,
               {experts, 2 * rows, blocks}, scales);
  const Quantization how{Quantization::Kind::mxfp4};
  for (std::int64_t expert = 0; expert < experts; ++expert)
    for (std::int64_t first = 0; first < 2; ++first) {
      const FolderPlace place{
          "x", {experts, columns, 2 * rows}, model::Transform::copy, expert, 2, first};
      EXPECT_EQ(why_unusable(folder.tensor(how), place, {rows, columns}), "");
      const auto value = [&](std::int64_t i, std::int64_t j) {
        const std::int64_t block = (expert * 2 * rows + 2 * i + first) * blocks + j / 32;
        const unsigned two = codes[static_cast<std::size_t>(block * 16 + j % 32 / 2)];
        const int exponent = scales[static_cast<std::size_t>(block)] - 127;
        return std::ldexp(e2m1[j % 2 == 0 ? two % 16 : two / 16], exponent);
      };
      expect_boxes(rows, columns, value, [&](const Shape& begin, const Shape& extent) {
        return folder.read(how, place, begin, extent);
      });
    }
  FolderPlace place{"x", {experts, columns, 2 * rows}, model::Transform::copy, 0, 2, 0};
  EXPECT_NE(why_unusable(folder.tensor(how), place, {rows, 90}).find("blocks of 32"),
            std::string::npos);
  place.shape = {experts, columns, 8};
  EXPECT_NE(why_unusable(folder.tensor(how), place, {4, columns}), "");
}

TEST(Quantization, AScaleThatIsNoNumberIsRefused) {
  Folder folder;
  folder.write(DType::u8, {1, 1, 1, 16}, Bytes(16, 0x11), DType::u8, {1, 1, 1},
               Bytes{255});
  const FolderPlace place{"x", {1, 32, 1}, model::Transform::copy, 0, 1, 0};
  try {
    folder.read({Quantization::Kind::mxfp4}, place, {0, 0}, {1, 32});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::bad_content);
  }
}

// The numbers are rounded to fp32, and then to the type that is wanted.
TEST(Quantization, OtherTypesAreRoundedFromFp32) {
  Folder folder;
  folder.write(DType::e4m3, {1, 2}, Bytes{0x39, 0xb9}, DType::f32, {1}, Floats{0.1F});
  std::vector<double> out(2);
  const FolderPlace place{"codes", {1, 2}};
  read_quantized(folder.files(), folder.tensor({Quantization::Kind::fp8}), place, {0, 0},
                 TensorView(out.data(), DType::f64, {1, 2}));
  EXPECT_EQ(out[0], static_cast<double>(1.125F * 0.1F));
  EXPECT_EQ(out[1], -static_cast<double>(1.125F * 0.1F));
}

}  // namespace
}  // namespace trireme::convert
