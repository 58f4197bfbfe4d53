// Weights of a folder that is written, as codes: encoding, and what config.json says.
// SPDX-License-Identifier: Apache-2.0
#include "convert/quantized_writer.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/coded_matrix.hpp"
#include "base/split.hpp"
#include "convert/row_codes.hpp"
#include "io/element_convert.hpp"

namespace trireme::convert {
namespace {

using io::SafetensorsTensor;

constexpr std::int64_t block = 64;

std::string_view python_name(DType dtype) {
  if (dtype == DType::bf16) return "bfloat16";
  return dtype == DType::f16 ? "float16" : "float32";
}

// The JSON text that bitsandbytes reads beside the codes.
std::string nf4_state(const Shape& shape, DType dtype) {
  io::Json state;
  state["quant_type"] = "nf4";
  state["blocksize"] = block;
  state["dtype"] = python_name(dtype);
  state["shape"] = {shape[0], shape[1]};
  return state.dump();
}

std::string without_weight(const std::string& name) {
  constexpr std::string_view weight = "weight";
  return name.ends_with(weight) ? name.substr(0, name.size() - weight.size())
                                : name + ".";
}

const io::SafetensorsType& i8_type() {
  static const io::SafetensorsType type{"I8", 8, {}};
  return type;
}

SafetensorsTensor tensor(const std::string& name, const io::SafetensorsType& type,
                         std::vector<std::int64_t> extents) {
  return {name, &type, std::move(extents), 0, 0};
}
SafetensorsTensor tensor(const std::string& name, DType dtype,
                         std::vector<std::int64_t> extents) {
  return tensor(name, io::safetensors_type(dtype), std::move(extents));
}

// Memory for each of the tensors; I8 is kept as U8.
std::vector<Buffer> memory_for(const std::vector<SafetensorsTensor>& tensors) {
  std::vector<Buffer> out;
  for (const SafetensorsTensor& each : tensors) {
    const Shape shape = each.extents.empty() ? Shape{1} : *each.shape();
    out.emplace_back(Device::host(), each.type->dtype.value_or(DType::u8), shape,
                     MemoryClass::data, "codes");
  }
  return out;
}

// Row i as f32.
void row_of(const TensorView& matrix, std::int64_t i, std::vector<float>& numbers) {
  const auto* const from =
      static_cast<const std::byte*>(matrix.raw()) +
      static_cast<std::size_t>(i * matrix.dim(1)) * size_of(matrix.dtype());
  io::convert_elements(from, matrix.dtype(), numbers.data(), DType::f32, matrix.dim(1));
}

void encode_nf4(const TensorView& matrix, const std::vector<Buffer>& out) {
  const std::int64_t n = matrix.elements(), K = matrix.dim(1);
  auto* const codes = out[0].view().data<std::uint8_t>();
  auto* const absmax = out[1].view().data<float>();
  std::copy_n(nf4_book.numbers, 16, out[2].view().data<float>());
  const std::string state = nf4_state(matrix.shape(), matrix.dtype());
  std::memcpy(out[3].view().raw(), state.data(), state.size());
  // Rows of numbers come in, blocks of them go out; an odd rest ends with a zero's code.
  std::vector<float> row(static_cast<std::size_t>(K)), waiting;
  std::uint8_t of_block[block + 1];
  std::int64_t done = 0;
  const auto finish = [&](std::int64_t count) {
    absmax[done / block] = nf4_codes(waiting.data(), count, count == block, of_block);
    of_block[count] = static_cast<std::uint8_t>(encoder_of(FourBitType::nf4).encode(0));
    for (std::int64_t i = 0; i < count; i += 2)
      codes[(done + i) / 2] =
          static_cast<std::uint8_t>(of_block[i] << 4 | of_block[i + 1]);
    done += count;
  };
  for (std::int64_t i = 0; i < matrix.dim(0); ++i) {
    row_of(matrix, i, row);
    for (const float number : row) {
      waiting.push_back(number);
      if (static_cast<std::int64_t>(waiting.size()) < block) continue;
      finish(block);
      waiting.clear();
    }
  }
  if (done < n) finish(n - done);
}

void encode_int8(const std::string& name, const TensorView& matrix,
                 const std::vector<Buffer>& out) {
  const std::int64_t K = matrix.dim(1);
  auto* const codes = out[0].view().data<std::uint8_t>();
  auto* const scales = out[1].view().data<float>();
  *out[2].view().data<std::uint8_t>() = 0;  // rows
  std::vector<float> row(static_cast<std::size_t>(K));
  for (std::int64_t i = 0; i < matrix.dim(0); ++i) {
    row_of(matrix, i, row);
    scales[i] = int8_codes(name, row.data(), K, codes + i * K);
  }
}

// The scale is rounded to the type of the numbers, in which it is stored.
void encode_fp8(const TensorView& matrix, const std::vector<Buffer>& out) {
  const std::int64_t K = matrix.dim(1);
  auto* const codes = static_cast<std::uint8_t*>(out[0].view().raw());
  const TensorView& scales = out[1].view();
  const std::size_t size = size_of(scales.dtype());
  std::vector<float> row(static_cast<std::size_t>(K));
  for (std::int64_t i = 0; i < matrix.dim(0); ++i) {
    row_of(matrix, i, row);
    const float scale = e4m3_codes(row.data(), K, scales.dtype(), codes + i * K);
    io::convert_elements(
        &scale, DType::f32,
        static_cast<std::byte*>(scales.raw()) + static_cast<std::size_t>(i) * size,
        scales.dtype(), 1);
  }
}

}  // namespace

Written written_as(const model::WholeTensor& whole, const FolderPlace& place) {
  const std::string_view name = whole.name;
  if (!whole.learned || whole.shape.rank() != 2 || !name.ends_with(".weight"))
    return Written::numbers;
  if (place.stacked() || place.transform == model::Transform::unit_dim)
    return Written::numbers;
  if (name.find(".experts.") != std::string_view::npos) return Written::numbers;
  const bool of_block = name.find(".layers.") != std::string_view::npos ||
                        name.find(".h.") != std::string_view::npos;
  const bool gate = name.ends_with("gate.weight") || name.ends_with("router.weight");
  if (!of_block || gate) {
    const bool head =
        name.ends_with("lm_head.weight") || name.ends_with("embed_out.weight");
    return head || name.ends_with("shared_expert_gate.weight") ? Written::linear
                                                               : Written::numbers;
  }
  return Written::codes;
}

std::vector<SafetensorsTensor> coded_tensors(QuantizeTo to, const std::string& name,
                                             const Shape& shape, DType dtype) {
  const std::int64_t N = shape[0], K = shape[1], n = N * K;
  const std::string base = without_weight(name);
  if (to == QuantizeTo::nf4)
    return {tensor(name, DType::u8, {(n + 1) / 2, 1}),
            tensor(name + ".absmax", DType::f32, {divide_up(n, block)}),
            tensor(name + ".quant_map", DType::f32, {16}),
            tensor(name + ".quant_state.bitsandbytes__nf4", DType::u8,
                   {static_cast<std::int64_t>(nf4_state(shape, dtype).size())})};
  if (to == QuantizeTo::int8)
    return {tensor(name, i8_type(), {N, K}), tensor(base + "SCB", DType::f32, {N}),
            tensor(base + "weight_format", DType::u8, {})};
  return {tensor(name, DType::e4m3, {N, K}),
          tensor(base + "weight_scale", dtype, {N, 1})};
}

std::vector<Buffer> encode_matrix(QuantizeTo to, const std::string& name,
                                  const TensorView& numbers) {
  std::vector<Buffer> out =
      memory_for(coded_tensors(to, name, numbers.shape(), numbers.dtype()));
  if (to == QuantizeTo::nf4) encode_nf4(numbers, out);
  if (to == QuantizeTo::int8) encode_int8(name, numbers, out);
  if (to == QuantizeTo::fp8) encode_fp8(numbers, out);
  return out;
}

io::Json quantization_block(QuantizeTo to, DType dtype,
                            const std::vector<std::string>& kept) {
  io::Json json;
  if (to == QuantizeTo::fp8) {
    json["quant_method"] = "compressed-tensors";
    json["format"] = "float-quantized";
    json["quantization_status"] = "compressed";
    json["ignore"] = kept;
    io::Json& group = json["config_groups"]["group_0"];
    group["targets"] = {"Linear"};
    group["weights"] = {{"num_bits", 8},
                        {"type", "float"},
                        {"symmetric", true},
                        {"strategy", "channel"},
                        {"dynamic", false}};
    group["input_activations"] = nullptr;
    group["output_activations"] = nullptr;
    return json;
  }
  const bool four = to == QuantizeTo::nf4;
  json["quant_method"] = "bitsandbytes";
  json["load_in_4bit"] = four;
  json["load_in_8bit"] = !four;
  json["llm_int8_skip_modules"] = kept;
  if (!four) {
    json["llm_int8_threshold"] = 6.0;
    return json;
  }
  json["bnb_4bit_quant_type"] = "nf4";
  json["bnb_4bit_use_double_quant"] = false;
  json["bnb_4bit_compute_dtype"] = python_name(dtype);
  json["bnb_4bit_quant_storage"] = "uint8";
  return json;
}

}  // namespace trireme::convert
