// Codes as bitsandbytes stores them: NF4 and FP4 in blocks of 64, and LLM.int8().
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "base/split.hpp"
#include "convert/code_writer.hpp"
#include "convert/row_codes.hpp"

namespace trireme::convert {
namespace {

using io::SafetensorsTensor;

constexpr std::int64_t block = 64;

std::string_view python_name(DType dtype) {
  if (dtype == DType::bf16) return "bfloat16";
  return dtype == DType::f16 ? "float16" : "float32";
}

class FourBitWriter : public CodeWriter {
 public:
  FourBitWriter(FourBitType type, bool nested) : type_(type), nested_(nested) {}

  void check(const model::WholeTensor& /*whole*/,
             const FolderPlace& /*place*/) const override {}

  std::vector<SafetensorsTensor> tensors(const std::string& name, const Shape& shape,
                                         DType dtype) const override {
    const std::int64_t n = shape.elements(), blocks = divide_up(n, block);
    const auto state = static_cast<std::int64_t>(state_of(shape, dtype, 0).size());
    std::vector<SafetensorsTensor> out = {
        stored_tensor(name, DType::u8, {divide_up(n, 2), 1}),
        stored_tensor(name + ".absmax", nested_ ? DType::u8 : DType::f32, {blocks}),
        stored_tensor(name + ".quant_map", DType::f32, {16}),
        stored_tensor(name + ".quant_state.bitsandbytes__" + std::string(type_name()),
                      DType::u8, {state})};
    if (!nested_) return out;
    out.push_back(stored_tensor(name + ".nested_absmax", DType::f32,
                                {divide_up(blocks, nested_block)}));
    out.push_back(stored_tensor(name + ".nested_quant_map", DType::f32, {256}));
    return out;
  }

  io::Json config(DType dtype, const std::vector<std::string>& kept) const override {
    io::Json json;
    json["quant_method"] = "bitsandbytes";
    json["load_in_4bit"] = true;
    json["load_in_8bit"] = false;
    json["llm_int8_skip_modules"] = kept;
    json["bnb_4bit_quant_type"] = type_name();
    json["bnb_4bit_use_double_quant"] = nested_;
    json["bnb_4bit_compute_dtype"] = python_name(dtype);
    json["bnb_4bit_quant_storage"] = "uint8";
    return json;
  }

 private:
  std::string_view type_name() const { return type_ == FourBitType::nf4 ? "nf4" : "fp4"; }

  // The JSON text that bitsandbytes reads beside the codes. With nested magnitudes it is
  // as long whatever the offset, for its extent is known before the codes are.
  std::string state_of(const Shape& shape, DType dtype, float offset) const {
    constexpr std::size_t longest_number = 24;
    io::Json state;
    state["quant_type"] = type_name();
    state["blocksize"] = block;
    state["dtype"] = python_name(dtype);
    state["shape"] = {shape[0], shape[1]};
    if (!nested_) return state.dump();
    state["nested_blocksize"] = nested_block;
    state["nested_dtype"] = "float32";
    state["nested_offset"] = 0;
    const std::size_t most = state.dump().size() - 1 + longest_number;
    state["nested_offset"] = static_cast<double>(offset);
    std::string text = state.dump();
    text.resize(most, ' ');
    return text;
  }

  void fill(const std::string& name, const TensorView& numbers,
            const std::vector<Buffer>& out) const override {
    std::vector<float> absmax(
        static_cast<std::size_t>(divide_up(numbers.elements(), block)));
    fill_codes(name, numbers, out[0].view().data<std::uint8_t>(), absmax);
    std::copy_n(book_of(type_).numbers, 16, out[2].view().data<float>());
    float offset = 0;
    if (nested_) {
      offset = absmax_codes(absmax, out[1].view().data<std::uint8_t>(),
                            out[4].view().data<float>());
      std::copy_n(dynamic_map(DynamicType::signed_numbers).numbers, 256,
                  out[5].view().data<float>());
    } else {
      std::copy(absmax.begin(), absmax.end(), out[1].view().data<float>());
    }
    const std::string state = state_of(numbers.shape(), numbers.dtype(), offset);
    std::memcpy(out[3].view().raw(), state.data(), state.size());
  }

  // Rows of numbers come in, blocks of them go out; an odd rest ends with a zero's code.
  void fill_codes(const std::string& name, const TensorView& matrix, std::uint8_t* codes,
                  std::vector<float>& absmax) const {
    std::vector<float> row, waiting;
    std::uint8_t of_block[block + 1];
    std::int64_t done = 0;
    const auto finish = [&] {
      const auto count = static_cast<std::int64_t>(waiting.size());
      absmax[static_cast<std::size_t>(done / block)] =
          four_bit_codes(type_, waiting.data(), count, count == block, of_block);
      of_block[count] = static_cast<std::uint8_t>(encoder_of(type_).encode(0));
      for (std::int64_t i = 0; i < count; i += 2)
        codes[(done + i) / 2] =
            static_cast<std::uint8_t>(of_block[i] << 4 | of_block[i + 1]);
      done += count;
      waiting.clear();
    };
    for (std::int64_t i = 0; i < matrix.dim(0); ++i) {
      take_row(name, matrix, i, row);
      for (const float number : row) {
        waiting.push_back(number);
        if (static_cast<std::int64_t>(waiting.size()) == block) finish();
      }
    }
    if (!waiting.empty()) finish();
  }

  FourBitType type_;
  bool nested_;
};

class Int8Writer : public CodeWriter {
 public:
  void check(const model::WholeTensor& /*whole*/,
             const FolderPlace& /*place*/) const override {}

  std::vector<SafetensorsTensor> tensors(const std::string& name, const Shape& shape,
                                         DType /*dtype*/) const override {
    static const io::SafetensorsType i8{"I8", 8, {}};
    return {{name, &i8, {shape[0], shape[1]}, 0, 0},
            stored_tensor(beside_weight(name, ".SCB"), DType::f32, {shape[0]}),
            stored_tensor(beside_weight(name, ".weight_format"), DType::u8, {})};
  }

  io::Json config(DType /*dtype*/, const std::vector<std::string>& kept) const override {
    io::Json json;
    json["quant_method"] = "bitsandbytes";
    json["load_in_4bit"] = false;
    json["load_in_8bit"] = true;
    json["llm_int8_skip_modules"] = kept;
    json["llm_int8_threshold"] = 6.0;
    return json;
  }

 private:
  void fill(const std::string& name, const TensorView& numbers,
            const std::vector<Buffer>& out) const override {
    const std::int64_t columns = numbers.dim(1);
    auto* const codes = out[0].view().data<std::uint8_t>();
    auto* const scales = out[1].view().data<float>();
    *out[2].view().data<std::uint8_t>() = 0;  // rows
    std::vector<float> row;
    for (std::int64_t i = 0; i < numbers.dim(0); ++i) {
      take_row(name, numbers, i, row);
      scales[i] = int8_codes(name, row.data(), columns, codes + i * columns);
    }
  }
};

}  // namespace

CodeWriterPtr four_bit_writer(FourBitType type, bool nested) {
  return std::make_unique<FourBitWriter>(type, nested);
}
CodeWriterPtr int8_writer() { return std::make_unique<Int8Writer>(); }

}  // namespace trireme::convert
