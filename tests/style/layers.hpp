// The layer table of the design as data: who may include whom, and who owns what.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string_view>

namespace trireme::style {

// A module, its folder, and the modules that it may include besides itself.
struct Layer {
  std::string_view name, folder, may_include;
};

inline constexpr std::array layers = {
    Layer{"base", "src/base", ""},
    Layer{"cuda_emulation", "kernels/cuda_emulation", "kernels"},  // below base
    Layer{"kernels", "kernels", "base"},
    Layer{"comm", "comm", "base kernels"},
    Layer{"io", "io", "base comm"},
    Layer{"text", "src/text", "base io"},
    Layer{"data", "src/data", "base io text"},
    Layer{"parallel", "src/parallel", "base comm kernels"},
    Layer{"nn", "src/nn", "base kernels parallel"},
    Layer{"model", "src/model", "base kernels parallel nn"},
    Layer{"convert", "src/convert", "base comm io model"},
    Layer{"optim", "src/optim", "base comm kernels"},
    Layer{"schedule", "src/schedule", "base model"},
    Layer{"config", "src/config", "base comm io parallel nn model optim schedule"},
    Layer{"engine", "src/engine",
          "base kernels comm io parallel nn model optim schedule config"},
    Layer{"launch", "src/launch", "base comm kernels io config"},
    Layer{"plan", "src/plan", "base kernels comm io model optim schedule config engine"},
    Layer{"train", "src/train",
          "base kernels comm io text data parallel nn model optim schedule config engine "
          "launch convert"},
    Layer{"infer", "src/infer", "base kernels comm io parallel nn model"},
    Layer{"selftest", "src/selftest", "base kernels comm io optim config engine launch"},
    Layer{"app", "src/app",
          "base kernels comm io parallel nn model optim schedule config engine launch "
          "plan train infer convert text data selftest"},
};

// Third-party headers whose name starts with `prefix` belong to `owners`.
struct HeaderOwner {
  std::string_view prefix, owners;
};

inline constexpr std::array header_owners = {
    HeaderOwner{"mpi.h", "comm"},
    HeaderOwner{"nccl", "comm cuda_emulation"},
    HeaderOwner{"Kokkos_", "kernels"},
    HeaderOwner{"dnnl", "kernels"},
    HeaderOwner{"oneapi/dnnl", "kernels"},
    HeaderOwner{"cblas", "kernels"},
    HeaderOwner{"omp.h", "kernels"},
    HeaderOwner{"cublas", "kernels"},
    HeaderOwner{"cudnn", "kernels"},
    HeaderOwner{"cuda", "base kernels cuda_emulation"},
    HeaderOwner{"toml++", "io"},
    HeaderOwner{"hdf5", "io"},
    HeaderOwner{"H5", "io"},
    HeaderOwner{"nlohmann", "io text"},
    HeaderOwner{"xxhash", "io"},
    HeaderOwner{"pcre2", "text"},
    HeaderOwner{"zlib", "text"},
    HeaderOwner{"zstd", "text"},
    HeaderOwner{"gtest", ""},
};

// Words that only `owners` may write in code (comments aside). They are matched as whole
// words; one that ends in '_' or '(' is matched as a prefix or a call.
struct WordOwner {
  std::string_view word, owners;
};

inline constexpr std::array word_owners = {
    WordOwner{"MPI_", "comm"},
    WordOwner{"__global__", "kernels cuda_emulation"},
    WordOwner{"exit(", ""},
    WordOwner{"abort(", "cuda_emulation"},
    WordOwner{"_exit(", "comm train"},
    WordOwner{"quick_exit(", ""},
    WordOwner{"cudaMalloc", "base cuda_emulation"},
    WordOwner{"cudaFree", "base cuda_emulation"},
    // Text that no number fits ends these in an exception, in 0 or in undefined
    // behaviour: numbers are parsed by base/number.hpp.
    WordOwner{"stoi(", ""},
    WordOwner{"stol(", ""},
    WordOwner{"stoll(", ""},
    WordOwner{"stoul(", ""},
    WordOwner{"stoull(", ""},
    WordOwner{"stof(", ""},
    WordOwner{"stod(", ""},
    WordOwner{"atoi(", ""},
    WordOwner{"atol(", ""},
    WordOwner{"atof(", ""},
    WordOwner{"strtod(", ""},
    WordOwner{"strtol(", ""},
    WordOwner{"sscanf(", ""},
};

}  // namespace trireme::style
