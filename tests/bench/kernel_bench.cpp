// Times every kernel at the sizes of GPT-2 124M and of a Llama of 1.3 billion parameters.
// SPDX-License-Identifier: Apache-2.0
// kernel_bench [--device cpu|cuda] [--type fp32|bf16|fp16] [--only NAME] [--quick]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <optional>

#include "base/cuda_devices.hpp"
#include "base/format.hpp"
#include "bench/attention_scratch.hpp"
#include "bench/bench.hpp"
#include "bench/code_kernels.hpp"
#include "bench/fp8_kernels.hpp"
#include "kernels/activation.hpp"
#include "kernels/attention.hpp"
#include "kernels/cross_entropy.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/embedding.hpp"
#include "kernels/gemm_epilogue.hpp"
#include "kernels/moe.hpp"
#include "kernels/norm.hpp"
#include "kernels/optimizer.hpp"
#include "kernels/rope.hpp"
#include "kernels/runtime/runtime.hpp"

namespace trireme::bench {
namespace {

using kernels::Accumulate, kernels::Transpose;
using Library = kernels::AttentionLibrary;
constexpr auto added = Accumulate::yes;

// T tokens, C of them in a chunk of the loss, D model, F hidden, H heads of width K, V
// vocabulary; n parameters of the optimizer's sweep.
struct Model {
  std::string name;
  bool gated;  // SwiGLU and RMSNorm, else GELU, LayerNorm and biases
  std::int64_t T, C, D, F, H, K, V, n;
};

std::vector<Model> models(const Settings& s) {
  if (s.quick) {
    return {{"gpt2", false, 32, 16, 128, 256, 2, 64, 500, 10001},
            {"llama", true, 32, 16, 128, 192, 1, 128, 512, 10000}};
  }
  const std::int64_t T = s.device.is_cuda() ? 8192 : 1024;
  const std::int64_t n = s.device.is_cuda() ? 124'475'904 : 16'000'000;
  return {{"gpt2", false, T, T / 4, 768, 3072, 12, 64, 50304, n},
          {"llama", true, T, T / 4, 2048, 5504, 16, 128, 32000, n}};
}

class KernelBench {
 public:
  explicit KernelBench(const Settings& settings) : s(settings), table(settings) {}

  void run() {
    for (const Model& m : models(s)) {
      products(m);
      head(m);
      if (m.gated) {
        experts(m);
      } else {
        epilogues(m);
      }
    }
    table.print();
    for (const Model& m : models(s)) add_fp8_kernels(s, table, m.name, m.T, m.F, m.D);
    for (const Model& m : models(s)) add_code_kernels(s, table, m.name, m.F, m.D);
    table.print();
    for (const Model& m : models(s)) {
      norms(m);
      activations(m);
      rows(m);
      loss(m);
      optimizer(m);
      table.print();
    }
    for (const std::int64_t S : sequences())
      for (const Model& m : models(s)) {
        attention(m, S, Library::own);
        if (s.device.is_cuda()) attention(m, S, Library::cudnn);
      }
    table.print();
  }
  bool failed() const { return table.failed(); }

 private:
  std::vector<std::int64_t> sequences() const {
    if (s.quick) return {64};
    if (!s.device.is_cuda()) return {1024};
    return {1024, 4096, 16384};
  }
  Tensor normal(const Shape& shape, double deviation = 1) const {
    return Tensor::normal(s, s.type, shape, deviation);
  }
  Tensor wide(const Shape& shape,
              double deviation = 1) const {  // in the accumulator dtype
    return Tensor::normal(s, DType::f32, shape, deviation);
  }
  double bytes_of(std::int64_t elements) const {
    return static_cast<double>(elements) * static_cast<double>(size_of(s.type));
  }

  void products(const Model& m);
  void head(const Model& m);
  void product(const std::string& name, std::int64_t T, std::int64_t N, std::int64_t K,
               bool bias);
  void epilogues(const Model& m);
  void experts(const Model& m);
  void norms(const Model& m);
  void activations(const Model& m);
  void rows(const Model& m);
  void loss(const Model& m);
  void optimizer(const Model& m);
  void attention(const Model& m, std::int64_t S, Library library);
  // Without a form it adds in any order.
  void attention_backward(const kernels::AttentionShape& attention,
                          const std::string& name, Library library,
                          std::optional<kernels::AttentionBackward> form);

  Settings s;
  Table table;
};

// y = x w^T, dx = dy w, dw += dy^T x.
void KernelBench::product(const std::string& name, std::int64_t T, std::int64_t N,
                          std::int64_t K, bool bias) {
  const double flops = 2.0 * double(T) * double(N) * double(K);
  const double bytes = bytes_of(T * N + T * K + N * K);
  const std::string shape = format(" {} x {} x {}", T, N, K);
  table.add(
      "gemm " + name + " forward" + shape, {0, flops},
      [&]() -> Call {
        return [=, x = normal({T, K}), w = normal({N, K}, 0.02), y = normal({T, N}),
                b = normal({N})](Stream& stream) {
          kernels::gemm(stream, y, x, Transpose::no, w, Transpose::yes, Accumulate::no,
                        bias ? b.view() : TensorView());
        };
      },
      bytes);
  table.add(
      "gemm " + name + " input gradient" + shape, {0, flops},
      [&]() -> Call {
        return [dx = normal({T, K}), w = normal({N, K}, 0.02),
                dy = normal({T, N})](Stream& stream) {
          kernels::gemm(stream, dx, dy, Transpose::no, w, Transpose::no);
        };
      },
      bytes);
  table.add(
      "gemm " + name + " weight gradient" + shape, {0, flops},
      [&]() -> Call {
        return
            [x = normal({T, K}), dw = wide({N, K}), dy = normal({T, N})](Stream& stream) {
              kernels::gemm(stream, dw, dy, Transpose::yes, x, Transpose::no, added);
            };
      },
      bytes);
}

void KernelBench::products(const Model& m) {
  product(m.name + " qkv", m.T, 3 * m.D, m.D, !m.gated);
  product(m.name + " out", m.T, m.D, m.H * m.K, !m.gated);
  product(m.name + (m.gated ? " gate_up" : " up"), m.T, m.gated ? 2 * m.F : m.F, m.D,
          !m.gated);
  product(m.name + " down", m.T, m.D, m.F, !m.gated);
  product(m.name + " head", m.C, m.V, m.D, false);
}

// What a vocabulary that is no multiple of anything costs, whose rows of logits are
// padded in memory as the head pads them.
void KernelBench::head(const Model& m) {
  if (m.gated) return;
  const std::int64_t C = m.C, D = m.D;
  // As it is, with an odd extent, and what the head makes of that one: the first of two
  // products (src/nn/vocabulary_products.hpp).
  for (const std::int64_t V : {m.V, m.V - 47, (m.V - 47) / 64 * 64}) {
    const double flops = 2.0 * double(C) * double(V) * double(D);
    const std::string shape = format(" {} x {} x {}", C, V, D);
    const auto logits = [V](const Tensor& all) { return all.view().columns(0, V); };
    const auto add = [&](const char* what, const auto& multiply) {
      table.add(what + shape, {0, flops}, [&]() -> Call {
        return [=, x = normal({C, m.V}), w = normal({V, D}, 0.02), h = normal({C, D}),
                dw = wide({V, D})](Stream& stream) {
          multiply(stream, logits(x), w.view(), h.view(), dw.view());
        };
      });
    };
    using View = const TensorView&;
    add("gemm head, logits", [](Stream& stream, View x, View w, View h, View) {
      kernels::gemm(stream, x, h, Transpose::no, w, Transpose::yes);
    });
    add("gemm head, input gradient", [](Stream& stream, View x, View w, View h, View) {
      kernels::gemm(stream, h, x, Transpose::no, w, Transpose::no);
    });
    add("gemm head, weight gradient", [](Stream& stream, View x, View, View h, View dw) {
      kernels::gemm(stream, dw, x, Transpose::yes, h, Transpose::no, added);
    });
  }
}

// The MLP's products with GELU, and with the gradient of the bias: each in one call, and
// as the calls that it takes the place of.
void KernelBench::epilogues(const Model& m) {
  const std::int64_t T = m.T, D = m.D, F = m.F;
  const double flops = 2.0 * double(T) * double(D) * double(F);
  const std::string shape = format(" {} {} x {} x {}", m.name, T, F, D);
  table.add("gemm up, gelu" + shape, {0, flops}, [&]() -> Call {
    return [x = normal({T, D}), w = normal({F, D}, 0.02), bias = normal({F}),
            u = normal({T, F}), y = normal({T, F})](Stream& stream) {
      kernels::gemm_activate(stream, kernels::Activation::gelu, y, u, x, Transpose::no, w,
                             Transpose::yes, bias);
    };
  });
  table.add("gemm up, then gelu" + shape, {0, flops}, [&]() -> Call {
    return [x = normal({T, D}), w = normal({F, D}, 0.02), bias = normal({F}),
            u = normal({T, F}), y = normal({T, F})](Stream& stream) {
      kernels::gemm(stream, u, x, Transpose::no, w, Transpose::yes, Accumulate::no, bias);
      kernels::activate(stream, kernels::Activation::gelu, u, y);
    };
  });
  table.add("gemm down, input gradient, gelu" + shape, {0, flops}, [&]() -> Call {
    return [dy = normal({T, D}), w = normal({D, F}, 0.02), u = normal({T, F}),
            du = normal({T, F})](Stream& stream) {
      kernels::gemm_activate_backward(stream, kernels::Activation::gelu, du, u, dy,
                                      Transpose::no, w, Transpose::no);
    };
  });
  table.add("gemm down, input gradient, then gelu" + shape, {0, flops}, [&]() -> Call {
    return [dy = normal({T, D}), w = normal({D, F}, 0.02), u = normal({T, F}),
            du = normal({T, F})](Stream& stream) {
      kernels::gemm(stream, du, dy, Transpose::no, w, Transpose::no);
      kernels::activate_backward(stream, kernels::Activation::gelu, du, u, du);
    };
  });
  table.add("gemm up, weight and bias gradient" + shape, {0, flops}, [&]() -> Call {
    return [du = normal({T, F}), x = normal({T, D}), dw = wide({F, D}), db = wide({F})](
               auto& on) { kernels::gemm_column_sums(on, dw, db, du, x, added); };
  });
  table.add("gemm up, weight, then bias gradient" + shape, {0, flops}, [&]() -> Call {
    return [du = normal({T, F}), x = normal({T, D}), dw = wide({F, D}),
            db = wide({F})](Stream& stream) {
      kernels::gemm(stream, dw, du, Transpose::yes, x, Transpose::no, added);
      kernels::add_column_sums(stream, du, db);
    };
  });
}

// A mixture of 8 experts, 2 for each token, and one of 64.
void KernelBench::experts(const Model& m) {
  const std::int64_t R = 2 * m.T, D = m.D;
  for (const std::int64_t E :
       s.quick ? std::vector<std::int64_t>{8} : std::vector<std::int64_t>{8, 64}) {
    const std::int64_t F = 8 * m.F / E / 8 * 8;
    const std::vector<std::int32_t> rows(static_cast<std::size_t>(E),
                                         static_cast<std::int32_t>(R / E));
    if (R % E != 0 || F == 0) continue;
    const double flops = 2.0 * double(R) * double(D) * double(F);
    const std::string shape = format(" {} E {} {} x {} x {}", m.name, E, R, F, D);
    table.add("gemm experts forward" + shape, {0, flops}, [&]() -> Call {
      return [=, x = normal({R, D}), w = normal({E * F, D}, 0.02), y = normal({R, F})](
                 Stream& stream) { kernels::grouped_linear(stream, rows, x, w, y); };
    });
    table.add("gemm experts input gradient" + shape, {0, flops}, [&]() -> Call {
      return [=, dy = normal({R, F}), w = normal({E * F, D}, 0.02),
              dx = normal({R, D})](Stream& stream) {
        kernels::grouped_linear_input_gradient(stream, rows, dy, w, dx);
      };
    });
    table.add("gemm experts weight gradient" + shape, {0, flops}, [&]() -> Call {
      return [=, dy = normal({R, F}), x = normal({R, D}),
              dw = wide({E * F, D})](Stream& stream) {
        kernels::grouped_linear_weight_gradient(stream, rows, dy, x, dw);
      };
    });
  }
}

void KernelBench::norms(const Model& m) {
  const Shape shape{m.T, m.D}, row{m.D}, column{m.T};
  const double unit = bytes_of(m.T * m.D);
  if (m.gated) {
    table.add("rms_norm " + m.name, {2 * unit}, [&]() -> Call {
      return [x = normal(shape), gain = normal(row), y = normal(shape),
              rstd = wide(column)](Stream& stream) {
        kernels::rms_norm(stream, x, {gain}, 1e-5, y, rstd);
      };
    });
    table.add("residual + rms_norm " + m.name, {4 * unit}, [&]() -> Call {
      return [a = normal(shape), b = normal(shape), x = normal(shape), gain = normal(row),
              y = normal(shape), rstd = wide(column)](Stream& stream) {
        kernels::add_rms_norm(stream, {a, b, {}}, x, {gain}, 1e-5, y, rstd);
      };
    });
    table.add("rms_norm backward " + m.name, {4 * unit}, [&]() -> Call {
      return [dy = normal(shape), x = normal(shape), gain = normal(row),
              rstd = Tensor::positive(s, DType::f32, column), skip = normal(shape),
              dx = normal(shape), dgain = wide(row)](Stream& stream) {
        kernels::rms_norm_backward(stream, dy, x, {gain}, rstd, skip, dx, dgain);
      };
    });
    return;
  }
  table.add("layer_norm " + m.name, {2 * unit}, [&]() -> Call {
    return [x = normal(shape), gain = normal(row), shift = normal(row), y = normal(shape),
            mean = wide(column), rstd = wide(column)](Stream& stream) {
      kernels::layer_norm(stream, x, gain, shift, 1e-5, y, mean, rstd);
    };
  });
  table.add("residual + layer_norm " + m.name, {4 * unit}, [&]() -> Call {
    return [a = normal(shape), b = normal(shape), bias = normal(row), x = normal(shape),
            gain = normal(row), shift = normal(row), y = normal(shape),
            mean = wide(column), rstd = wide(column)](Stream& stream) {
      kernels::add_layer_norm(stream, {a, b, bias}, x, gain, shift, 1e-5, y, mean, rstd);
    };
  });
  table.add("layer_norm backward " + m.name, {4 * unit}, [&]() -> Call {
    return [dy = normal(shape), x = normal(shape), gain = normal(row),
            mean = wide(column, 0.1), rstd = Tensor::positive(s, DType::f32, column),
            skip = normal(shape), dx = normal(shape), dgain = wide(row),
            dshift = wide(row)](Stream& stream) {
      kernels::layer_norm_backward(stream, dy, x, gain, mean, rstd, skip, dx, dgain,
                                   dshift);
    };
  });
}

void KernelBench::activations(const Model& m) {
  const Shape shape{m.T, m.F}, both{m.T, 2 * m.F};
  const double unit = bytes_of(m.T * m.F);
  if (m.gated) {
    table.add("swiglu " + m.name, {3 * unit}, [&]() -> Call {
      return [x = normal(both), y = normal(shape)](Stream& stream) {
        kernels::activate(stream, kernels::Activation::swiglu, x, y);
      };
    });
    table.add("swiglu backward " + m.name, {5 * unit}, [&]() -> Call {
      return [dy = normal(shape), x = normal(both), dx = normal(both)](Stream& stream) {
        kernels::activate_backward(stream, kernels::Activation::swiglu, dy, x, dx);
      };
    });
    return;
  }
  table.add("gelu " + m.name, {2 * unit}, [&]() -> Call {
    return [x = normal(shape), y = normal(shape)](Stream& stream) {
      kernels::activate(stream, kernels::Activation::gelu, x, y);
    };
  });
  table.add("gelu backward " + m.name, {3 * unit}, [&]() -> Call {
    return [dy = normal(shape), x = normal(shape), dx = normal(shape)](Stream& stream) {
      kernels::activate_backward(stream, kernels::Activation::gelu, dy, x, dx);
    };
  });
}

// Kernels on the rows of the residual stream and of the embedding.
void KernelBench::rows(const Model& m) {
  const Shape shape{m.T, m.D};
  const double unit = bytes_of(m.T * m.D), sums = 8.0 * double(m.T * m.D);
  if (m.gated) {
    const std::int64_t S = std::min<std::int64_t>(m.T, 2048);
    table.add("rope " + m.name + ", queries and keys", {4 * unit}, [&]() -> Call {
      const Tensor cos_sin = wide({S, m.K});
      Stream filling(s.device);
      kernels::rope_table(filling, 10000.0, cos_sin);
      return [=, this, heads = 2 * m.H, x = normal({m.T, 2 * m.D}),
              at = Tensor::positions(s, m.T, S)](Stream& stream) {
        kernels::rope(stream, x, {heads}, at, cos_sin, Direction::forward);
      };
    });
  }
  table.add("add_bias " + m.name, {3 * unit}, [&]() -> Call {
    return
        [a = normal(shape), b = normal(shape), bias = normal({m.D}),
         y = normal(shape)](Stream& stream) { kernels::add_bias(stream, a, b, bias, y); };
  });
  table.add("add_column_sums " + m.name, {unit}, [&]() -> Call {
    return [x = normal(shape), y = wide({m.D})](Stream& stream) {
      kernels::add_column_sums(stream, x, y);
    };
  });
  table.add("embedding " + m.name, {2 * unit}, [&]() -> Call {
    return [at = Tensor::indices(s, m.T, m.V), e = normal({m.V, m.D}),
            y = normal(shape)](Stream& stream) {
      kernels::embedding(stream, at, e, 0, kernels::Accumulate::no, y);
    };
  });
  table.add("embedding backward " + m.name, {unit + sums}, [&]() -> Call {
    return [at = Tensor::indices(s, m.T, m.V), dy = normal(shape), de = wide({m.V, m.D})](
               Stream& stream) { kernels::embedding_backward(stream, dy, at, 0, de); };
  });
}

void KernelBench::loss(const Model& m) {
  const double logits = 4.0 * double(m.C * m.V);
  table.add("cross_entropy statistics " + m.name, {logits}, [&]() -> Call {
    return [x = wide({m.C, m.V}), at = Tensor::indices(s, m.C, m.V),
            stats = wide({m.C, 3})](Stream& stream) {
      kernels::cross_entropy_statistics(stream, x, at, 0, stats);
    };
  });
  table.add("cross_entropy gradient " + m.name, {logits + bytes_of(m.C * m.V)},
            [&]() -> Call {
              return [x = wide({m.C, m.V}), at = Tensor::indices(s, m.C, m.V),
                      stats = Tensor::positive(s, DType::f32, {m.C, 3}),
                      dx = normal({m.C, m.V})](Stream& stream) {
                kernels::cross_entropy_gradient(stream, x, stats, at, 0, 1e-4, 0, dx);
              };
            });
  if (s.type == DType::f32) return;
  // Logits of the compute type, which the gradient is written over.
  table.add("cross_entropy statistics, 16 bits " + m.name, {logits / 2}, [&]() -> Call {
    return [x = normal({m.C, m.V}), at = Tensor::indices(s, m.C, m.V),
            stats = wide({m.C, 3})](Stream& stream) {
      kernels::cross_entropy_statistics(stream, x, at, 0, stats);
    };
  });
  table.add("cross_entropy gradient, in place " + m.name, {logits}, [&]() -> Call {
    return [x = normal({m.C, m.V}), at = Tensor::indices(s, m.C, m.V),
            stats = Tensor::positive(s, DType::f32, {m.C, 3})](Stream& stream) {
      kernels::cross_entropy_gradient(stream, x, stats, at, 0, 1e-4, 0, x);
    };
  });
}

void KernelBench::optimizer(const Model& m) {
  if (m.gated) return;  // the size of a model does not matter to it
  const Shape all{m.n};
  const bool copies = s.type != DType::f32;
  table.add("adamw", {double(m.n) * 32 + (copies ? bytes_of(m.n) : 0)}, [&]() -> Call {
    return [copies, w = wide(all, 0.02), g = wide(all, 1e-3), m1 = wide(all, 1e-3),
            m2 = Tensor::positive(s, DType::f32, all),
            rounded = copies ? normal(all) : normal({1})](Stream& stream) {
      const kernels::Update rule{.learning_rate = 1e-4, .weight_decay = 0.1, .step = 10};
      kernels::update(stream, rule, w, g, {m1, m2},
                      copies ? rounded.view() : TensorView());
    };
  });
  table.add("accumulate into f32", {double(m.n) * 8 + bytes_of(m.n)}, [&]() -> Call {
    return [x = normal(all), y = wide(all)](Stream& stream) {
      kernels::accumulate(stream, x, y);
    };
  });
  table.add("sum_of_squares, result on the host", {double(m.n) * 4}, [&]() -> Call {
    return [x = wide(all)](Stream& stream) { kernels::sum_of_squares(stream, x); };
  });
}

// By our own kernels, or by cuDNN.
void KernelBench::attention(const Model& m, std::int64_t S, Library library) {
  const std::int64_t T = std::max(S, s.quick ? 64 : s.device.is_cuda() ? 16384L : 1024L);
  const Shape shape{T, m.H * m.K};
  const kernels::AttentionShape attention{
      .batch = T / S,
      .sequence = S,
      .heads = m.H,
      .kv_heads = m.H,
      .head_width = m.K,
      .scale = 1 / std::sqrt(double(m.K)),
      .kv_head = [&] {
        std::vector<std::int32_t> own(static_cast<std::size_t>(m.H));
        for (std::size_t h = 0; h < own.size(); ++h)
          own[h] = static_cast<std::int32_t>(h);
        return own;
      }()};
  // Of the scores a query sees half: 4 K FLOPs for each pair forward, 10 K backward.
  const double pairs = 0.5 * double(T) * double(S + 1) * double(m.H);
  const bool own = library == Library::own;
  const std::string by = !s.device.is_cuda() ? "" : own ? ", own" : ", cuDNN";
  const std::string name = format("width {} S {} causal, {} heads{}", m.K, S, m.H, by);
  table.add(
      "attention " + name, {0, 4 * pairs * double(m.K)},
      [&]() -> Call {
        return [=, q = normal(shape), k = normal(shape), v = normal(shape),
                o = normal(shape), lse = wide({T, m.H}),
                scratch = std::make_shared<Arena>(
                    scratch_for(s.type, s.device, attention, false))](Stream& stream) {
          kernels::set_attention_library(library);
          kernels::attention(stream, *scratch, attention, q, k, v, o, lse);
        };
      },
      4 * bytes_of(T * m.H * m.K));
  using Form = kernels::AttentionBackward;
  attention_backward(attention, name, library, Form::automatic);
  if (!s.device.is_cuda()) return;
  attention_backward(attention, (own ? "2 passes, " : "any order, ") + name, library,
                     own ? std::optional(Form::two_passes) : std::nullopt);
}

void KernelBench::attention_backward(const kernels::AttentionShape& attention,
                                     const std::string& name, Library library,
                                     std::optional<kernels::AttentionBackward> form) {
  const std::int64_t T = attention.batch * attention.sequence, H = attention.heads,
                     K = attention.head_width;
  const Shape shape{T, H * K};
  const double pairs = 0.5 * double(T) * double(attention.sequence + 1) * double(H);
  table.add(
      "attention backward " + name, {0, 10 * pairs * double(K)},
      [=, this]() -> Call {
        const Tensor q = normal(shape), k = normal(shape), v = normal(shape),
                     o = normal(shape), lse = wide({T, H});
        kernels::set_attention_library(library);
        Stream forward(s.device);
        Arena space = scratch_for(s.type, s.device, attention, false);
        kernels::attention(forward, space, attention, q, k, v, o, lse);
        forward.synchronize();
        return [=, dy = normal(shape), dq = normal(shape), dk = normal(shape),
                dv = normal(shape),
                scratch = std::make_shared<Arena>(
                    scratch_for(s.type, s.device, attention, true))](Stream& stream) {
          kernels::set_attention_library(library);
          kernels::set_attention_backward(form.value_or(kernels::AttentionBackward{}));
          kernels::set_attention_deterministic(form.has_value());
          kernels::attention_backward(stream, *scratch, attention, dy, q, k, v, o, lse,
                                      dq, dk, dv);
        };
      },
      8 * bytes_of(T * H * K));
}

int run(int argc, char** argv) {
  const Settings settings = parse(argc, argv);
  if (settings.device.is_cuda() && cuda_devices().empty()) {
    std::printf("skipped: this machine has no GPU\n");
    return 77;
  }
  const kernels::Runtime runtime;
  std::printf("%s, %d threads\n",
              settings.device.is_cuda() ? cuda_devices()[0].name.c_str() : "host",
              kernels::threads());
  KernelBench bench(settings);
  bench.run();
  return bench.failed() ? 1 : 0;
}

}  // namespace
}  // namespace trireme::bench

int main(int argc, char** argv) {
  try {
    return trireme::bench::run(argc, argv);
  } catch (const trireme::Error& error) {
    std::fprintf(stderr, "kernel_bench: %s\n", error.what());
    return static_cast<int>(error.status());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kernel_bench: %s\n", error.what());
    return 70;
  }
}
