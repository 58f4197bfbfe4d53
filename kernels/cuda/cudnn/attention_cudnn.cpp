// cuDNN's fused attention: a plan for each kind of call, made at the first one.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>

#include "base/cuda/check.hpp"
#include "base/log.hpp"
#include "kernels/cuda/attention/cudnn.hpp"
#include "kernels/cuda/common/workspace.hpp"
#include "kernels/cuda/cudnn/attention_graph.hpp"

namespace trireme::kernels::cuda {
namespace {

using trireme::cuda::check;

// Versions before this one ask for workarounds: of sequences that are no multiples of
// 128, of masks, of single queries. One more for backward on Hopper: until 9.18 its
// workspace was not always initialised (TransformerEngine #2186).
constexpr std::size_t oldest_version = 91600, oldest_on_hopper = 91800;
// From this one on backward heeds the strides of lse on every GPU: before, on compute
// capability 8, it took lse as [batch, heads, sequence] whatever they said
// (cudnn-frontend #304). Of 12 nothing is known, so it is not asked either.
constexpr std::size_t first_with_strides_of_lse = 92600;
constexpr std::int64_t most_score_bytes = std::int64_t{1} << 30;
constexpr std::int64_t most_workspace_bytes = 2 * most_score_bytes;

struct Choice {
  std::optional<Plan> plan;
  bool has_run = false;
  std::string refusal;  // without a plan
};

// What is kept for a device.
struct Library {
  cudnnHandle_t handle = nullptr;
  int major = 0;        // compute capability
  std::string refusal;  // of the device as a whole
  std::map<AttentionProblem, Choice> choices;
};

Library open_library(Device device) {
  Library made;
  check(cudaDeviceGetAttribute(&made.major, cudaDevAttrComputeCapabilityMajor,
                               device.index),
        "cudaDeviceGetAttribute");
  if (cudnnGetVersion() < oldest_version) {
    made.refusal = format("cuDNN {} is older than {}", cudnnGetVersion(), oldest_version);
    return made;
  }
  try {
    check_cudnn(cudnnCreate(&made.handle), "cudnnCreate");
  } catch (const Error& error) {  // whatever it is: there are kernels of our own
    made.refusal = error.what();
  }
  return made;
}

// Lives as long as the process: the driver may be gone before a destructor would run.
Library& library(Device device) {
  static auto& libraries = *new std::map<int, Library>;
  check(cudaSetDevice(device.index), "cudaSetDevice");
  const auto found = libraries.find(device.index);
  if (found != libraries.end()) return found->second;
  Library& made = libraries.emplace(device.index, open_library(device)).first->second;
  if (!made.refusal.empty()) log::info("cuDNN does no attention: {}", made.refusal);
  return made;
}

// In the order of AttentionTensor.
std::array<const TensorView*, attention_matrices> matrices(const AttentionTensors& x) {
  return {&x.q, &x.k, &x.v, &x.o, &x.lse, &x.d_o, &x.dq, &x.dk, &x.dv};
}

bool is_aligned(const TensorView& x) {
  constexpr std::int64_t bytes = 16, half = 2;
  const bool rows = x.dtype() == DType::f32 || x.stride(0) * half % bytes == 0;
  return rows && reinterpret_cast<std::uintptr_t>(x.raw()) % bytes == 0;
}

// What backward cannot be asked on a GPU of a compute capability; nullptr if it can.
const char* obstacle_to_backward(int major, const AttentionShape& shape) {
  if (attention_deterministic() && major > 9)
    return "backward in a fixed order is made only up to compute capability 9";
  if (shape.sequence < 2) return "backward of a sequence of one row is not supported";
  const std::size_t version = cudnnGetVersion();
  if (major == 9 && version < oldest_on_hopper)
    return "backward on compute capability 9 needs cuDNN 9.18";
  const bool strides = major == 9 || major == 10 || version >= first_with_strides_of_lse;
  if (shape.heads > 1 && !strides)
    return "backward of several heads needs cuDNN 9.26 outside compute capabilities 9 "
           "and 10";
  return nullptr;
}

// What the library cannot be asked on a GPU of a compute capability; nullptr if it can.
const char* obstacle(int major, const AttentionShape& shape,
                     const AttentionTensors& tensors) {
  const DType type = tensors.q.dtype();
  if (type != DType::bf16 && type != DType::f16) return "only bf16 and f16 are supported";
  if (!shape.first_T.empty()) return "documents are not supported";
  if (shape.heads == 0 || shape.kv_heads == 0 || shape.heads % shape.kv_heads != 0)
    return "heads must be a multiple of kv_heads";
  const std::int64_t group = shape.heads / shape.kv_heads;
  for (std::int64_t h = 0; h < shape.heads; ++h)
    if (shape.kv_head[static_cast<std::size_t>(h)] != h / group)
      return "each key/value head must serve as many query heads, in order";
  if (!tensors.d_o.empty())
    if (const char* why = obstacle_to_backward(major, shape)) return why;
  for (const TensorView* x : matrices(tensors))
    if (!x->empty() && !is_aligned(*x)) return "rows must begin at multiples of 16 bytes";
  return nullptr;
}

// Sequences that backward does at once: their scores are held in memory.
std::int64_t sequences_at_once(const AttentionShape& shape, std::int64_t lse_row) {
  if (shape.sequence * lse_row % 4 != 0) return shape.batch;  // else lse is not aligned
  const std::int64_t S = (shape.sequence + 127) / 128 * 128;
  const std::int64_t fit = most_score_bytes / (2 * shape.heads) / S / S;
  std::int64_t count = std::clamp<std::int64_t>(fit, 1, shape.batch);
  while (shape.batch % count != 0) --count;
  return count;
}

const char* obstacle(const Library& one, const AttentionShape& shape,
                     const AttentionTensors& tensors) {
  if (!one.refusal.empty()) return one.refusal.c_str();
  return obstacle(one.major, shape, tensors);
}

AttentionProblem problem_of(const AttentionShape& shape,
                            const AttentionTensors& tensors) {
  AttentionProblem p;
  p.backward = !tensors.d_o.empty();
  p.type = tensors.q.dtype() == DType::f16 ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16;
  p.ordered = !p.backward || attention_deterministic();
  const bool in_turns = p.backward && p.ordered;
  p.batch = in_turns ? sequences_at_once(shape, tensors.lse.stride(0)) : shape.batch;
  p.sequence = shape.sequence;
  p.heads = shape.heads;
  p.kv_heads = shape.kv_heads;
  p.width = shape.head_width;
  const auto all = matrices(tensors);
  for (std::size_t i = 0; i < all.size(); ++i)
    if (!all[i]->empty()) p.row[i] = all[i]->stride(0);
  return p;
}

std::string words_for(const AttentionProblem& p) {
  return format(
      "attention{} of {}, batch {}, sequence {}, heads {}, kv_heads {}, "
      "head_width {}",
      p.backward ? " backward" : "", p.type == CUDNN_DATA_HALF ? "f16" : "bf16", p.batch,
      p.sequence, p.heads, p.kv_heads, p.width);
}

Choice choose(const Library& one, const AttentionProblem& p) {
  Choice choice;
  try {
    Graph graph;
    p.backward ? add_backward(graph, p) : add_forward(graph, p);
    choice.plan.emplace(graph, one.handle, Plan::Wish{most_workspace_bytes, p.ordered});
  } catch (const CudnnRefusal& refusal) {
    choice.refusal = refusal.what();
    log::info("cuDNN does no {}: {}", words_for(p), choice.refusal);
  } catch (const Error& error) {  // a library that is broken: our own kernels are not
    choice.refusal = error.what();
    log::warn("cuDNN fails to plan {}: {}", words_for(p), choice.refusal);
  }
  return choice;
}

Choice& find(Library& one, const AttentionProblem& p) {
  const auto found = one.choices.find(p);
  if (found != one.choices.end()) return found->second;
  constexpr std::size_t most_plans = 1024;  // a bound on memory, not met in training
  if (one.choices.size() >= most_plans) one.choices.clear();
  return one.choices.emplace(p, choose(one, p)).first->second;
}

// Working memory of a problem on this side of the library, in bytes, multiples of 256.
struct Own {
  std::int64_t delta = 0, dq_sums = 0;
  std::int64_t all() const { return delta + dq_sums; }
};
Own own_memory(const AttentionProblem& p) {
  constexpr std::int64_t unit = 256;
  const auto floats = [](std::int64_t count) {
    return (count * 4 + unit - 1) / unit * unit;
  };
  const std::int64_t rows = p.batch * p.heads * p.sequence;
  Own own;
  if (p.backward) own.delta = floats(rows);
  if (!p.ordered) own.dq_sums = floats(rows * p.width);
  return own;
}

// Runs the plan on the sequences from `first` on. memory: own_memory(), then the plan's.
void run(const Library& one, const Plan& plan, const AttentionProblem& p,
         const AttentionTensors& tensors, std::int64_t first, double factor,
         std::byte* memory) {
  float scale = static_cast<float>(factor), one_value = 1;
  float minus_infinity = -std::numeric_limits<float>::infinity();
  const auto all = matrices(tensors);
  std::array<void*, attention_tensors> of_id{};
  for (std::size_t i = 0; i < all.size(); ++i) {
    const TensorView& x = *all[i];
    if (!x.empty()) of_id[i] = x.rows(first * p.sequence, p.batch * p.sequence).raw();
  }
  const Own own = own_memory(p);
  of_id[t_delta] = memory;
  of_id[t_dq_sums] = memory + own.delta;
  of_id[t_scale] = &scale;
  of_id[t_minus_infinity] = &minus_infinity;
  of_id[t_one] = &one_value;
  std::array<void*, attention_tensors> pointers{};
  const auto ids = tensors_of(p);
  for (std::size_t i = 0; i < ids.size(); ++i)
    pointers[i] = of_id[static_cast<std::size_t>(ids[i])];
  plan.run(one.handle, ids, std::span<void* const>(pointers.data(), ids.size()),
           memory + own.all());
}

}  // namespace

// As version 9.19 asks for it: of a graph whose dq is one product it holds ds, of blocks
// of 128 rows; before compute capability 9 dq in f32 of a sum in parts; where query heads
// share a key/value head dk and dv of each of them.
std::int64_t cudnn_attention_workspace(const AttentionShape& shape,
                                       const AttentionTensors& tensors, int major) {
  if (tensors.d_o.empty() || obstacle(major, shape, tensors) != nullptr) return 0;
  const AttentionProblem p = problem_of(shape, tensors);
  const std::int64_t S = (p.sequence + 127) / 128 * 128;
  const std::int64_t query_bytes = 2 * p.batch * p.sequence * p.heads * p.width;
  std::int64_t bytes = own_memory(p).all();
  if (p.ordered)
    bytes += 2 * p.batch * p.heads * S * S;
  else if (major < 9)
    bytes += 2 * query_bytes;
  return bytes + (p.heads == p.kv_heads ? 0 : 2 * query_bytes);
}

bool cudnn_attention(Stream& stream, const AttentionShape& shape,
                     const AttentionTensors& tensors, std::string& reason) {
  Library& one = library(stream.device());
  if (const char* why = obstacle(one, shape, tensors)) {
    reason = why;
    return false;
  }
  const AttentionProblem p = problem_of(shape, tensors);
  Choice& choice = find(one, p);
  if (!choice.plan) {
    reason = choice.refusal;
    return false;
  }
  auto* const memory = static_cast<std::byte*>(
      workspace(stream, DType::u8, {own_memory(p).all() + choice.plan->workspace_bytes()})
          .raw());
  check_cudnn(cudnnSetStream(one.handle, static_cast<cudaStream_t>(stream.native())),
              "cudnnSetStream");
  try {
    for (std::int64_t first = 0; first < shape.batch; first += p.batch)
      run(one, *choice.plan, p, tensors, first, shape.scale, memory);
    choice.has_run = true;
    return true;
  } catch (const Error& error) {  // a plan that cannot be run: our own kernels can
    if (choice.has_run) throw;
    choice.plan.reset();
    reason = choice.refusal = error.what();
    log::warn("cuDNN fails to run {}: {}", words_for(p), choice.refusal);
    return false;
  }
}

}  // namespace trireme::kernels::cuda
