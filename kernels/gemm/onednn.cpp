// oneDNN matmul primitives of f32, cached by shape and strides, and its sgemm.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm/onednn.hpp"

#include <array>
#include <dnnl.hpp>
#include <string_view>
#include <unordered_map>

#include "base/error.hpp"
#include "base/fnv.hpp"
#include "kernels/gemm/workspace.hpp"

namespace trireme::kernels {
namespace {

using dnnl::memory;

struct Library {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
};

Library& library() {
  static Library one;
  return one;
}

// A primitive with memory objects whose pointers are set before each run.
struct Entry {
  dnnl::matmul primitive;
  memory a, b, c, scratch;
  std::size_t scratch_bytes = 0;
  bool fast = false;
};

// A matrix [rows, columns] whose rows (columns when `transposed`) are `stride` apart.
memory::desc describe(std::int64_t rows, std::int64_t columns, bool transposed,
                      std::int64_t stride) {
  const memory::dims strides =
      transposed ? memory::dims{1, stride} : memory::dims{stride, 1};
  return memory::desc({rows, columns}, memory::data_type::f32, strides);
}

dnnl::matmul::primitive_desc make_description(const Product& p) {
  const auto a = describe(p.m, p.k, p.transposed_left, p.a_stride);
  const auto b = describe(p.k, p.n, p.transposed_right, p.b_stride);
  const auto c = describe(p.m, p.n, false, p.c_stride);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (p.accumulate) {
    dnnl::post_ops sum;
    sum.append_sum(1.0f);
    attributes.set_post_ops(sum);
  }
#if DNNL_VERSION_MAJOR >= 3  // operation descriptors are gone
  return dnnl::matmul::primitive_desc(library().engine, a, b, c, attributes);
#else
  return dnnl::matmul::primitive_desc(dnnl::matmul::desc(a, b, c), attributes,
                                      library().engine);
#endif
}

Entry make_entry(const Product& p) {
  const auto description = make_description(p);
  const auto& engine = library().engine;
  const auto unset = [&](const memory::desc& d) { return memory(d, engine, nullptr); };
  Entry entry;
  entry.primitive = dnnl::matmul(description);
  entry.a = unset(description.src_desc());
  entry.b = unset(description.weights_desc());
  entry.c = unset(description.dst_desc());
  entry.scratch = unset(description.scratchpad_desc());
  entry.scratch_bytes = description.scratchpad_desc().get_size();
  entry.fast =
      std::string_view(description.impl_info_str()).find("brg") != std::string_view::npos;
  return entry;
}

struct Hash {
  std::size_t operator()(const Product& p) const {
    std::uint64_t h = fnv64_basis;
    const auto mix = [&](std::uint64_t value) { h = fnv64_with(h, value); };
    for (const auto value : {p.m, p.n, p.k, p.a_stride, p.b_stride, p.c_stride})
      mix(static_cast<std::uint64_t>(value));
    mix((p.transposed_left ? 4u : 0u) | (p.transposed_right ? 2u : 0u) |
        (p.accumulate ? 1u : 0u));
    return h ^ (h >> 29);
  }
};

Entry& find(const Product& product) {
  static std::unordered_map<Product, Entry, Hash> entries;
  const auto found = entries.find(product);
  if (found != entries.end()) return found->second;
  constexpr std::size_t most_entries = 4096;  // a bound on memory, not met in training
  if (entries.size() >= most_entries) entries.clear();
  try {
    return entries.emplace(product, make_entry(product)).first->second;
  } catch (const dnnl::error& error) {
    fail(Status::transport, "oneDNN has no product [{}, {}] x [{}, {}]: {}", product.m,
         product.k, product.k, product.n, error.what());
  }
}

// oneDNN's handles are not const, whether they are read or written.
void* handle(const void* data) { return const_cast<void*>(data); }

}  // namespace

bool is_fast(const Product& product) { return find(product).fast; }

void multiply_by_primitive(const Product& product, const float* a, const float* b,
                           float* c) {
  Entry& entry = find(product);
  entry.a.set_data_handle(handle(a));
  entry.b.set_data_handle(handle(b));
  entry.c.set_data_handle(c);
  std::array<dnnl_exec_arg_t, 4> arguments = {{{DNNL_ARG_SRC, entry.a.get()},
                                               {DNNL_ARG_WEIGHTS, entry.b.get()},
                                               {DNNL_ARG_DST, entry.c.get()}}};
  int count = 3;
  const auto add = [&](int argument, memory& m, void* data) {
    m.set_data_handle(data);
    arguments[static_cast<std::size_t>(count++)] = {argument, m.get()};
  };
  if (entry.scratch_bytes > 0)
    add(DNNL_ARG_SCRATCHPAD, entry.scratch,
        workspace(WorkspaceUse::scratch, entry.scratch_bytes));
  // The C function takes an array; the C++ wrapper would build a map at each call.
  const auto status = dnnl_primitive_execute(
      entry.primitive.get(), library().stream.get(), count, arguments.data());
  require(status == dnnl_success, Status::transport, "oneDNN failed with status {}",
          static_cast<int>(status));
  library().stream.wait();
}

void multiply_f32(const Product& p, const float* a, const float* b, float* c) {
  const auto status = dnnl_sgemm(
      p.transposed_left ? 'T' : 'N', p.transposed_right ? 'T' : 'N', p.m, p.n, p.k, 1.0f,
      a, p.a_stride, b, p.b_stride, p.accumulate ? 1.0f : 0.0f, c, p.c_stride);
  require(status == dnnl_success, Status::transport,
          "oneDNN's sgemm failed with status {} for [{}, {}] x [{}, {}]",
          static_cast<int>(status), p.m, p.k, p.k, p.n);
}

}  // namespace trireme::kernels
