// Prints what the compiler made of the kernels, their bounds, and predicted steps.
// SPDX-License-Identifier: Apache-2.0
//
// roofline [--check] TABLES DECKS CUBIN...: see roofline.sh. With --check only what is
// wrong is printed. Status 1 where a hot kernel spills, stores less widely than
// kernels.txt says, a row of it names no kernel, or a kernel has no row.
#include <cstdio>
#include <exception>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "base/format.hpp"
#include "bench/roofline/bounds.hpp"
#include "bench/roofline/step.hpp"

namespace trireme::bench {
namespace {

void print(const std::string& line) { std::printf("%s\n", line.c_str()); }

class Report {
 public:
  Report(const std::filesystem::path& tables, bool only_check)
      : rows_(read_hot_kernels(tables / "kernels.txt")),
        gpus_(read_gpus(tables / "gpus.txt")),
        only_check_(only_check) {}

  void add(const std::filesystem::path& path) {
    for (const KernelCode& kernel : read_cubin(path)) {
      const HotKernel* row = row_of(rows_, kernel.name);
      if (row == nullptr) {
        wrong(format("sm_{} {}: kernels.txt has no row for it", kernel.capability,
                     kernel.name));
      } else {
        seen_[kernel.capability].insert(row);
        if (row->cold)
          row = nullptr;
        else
          check(kernel, *row);
      }
      if (!only_check_) describe(kernel, row);
    }
  }

  // Rows that no kernel of a capability has: they would check nothing.
  int finish() {
    for (const auto& [capability, seen] : seen_)
      for (const HotKernel& row : rows_)
        if (!seen.contains(&row))
          wrong(format("sm_{}: kernels.txt names '{}', but there is no such kernel",
                       capability, row.pattern));
    if (seen_.empty()) wrong("no kernel of kernels.txt was given");
    print(format("roofline: {} hot kernels checked, {} wrong", checked_, wrong_));
    return wrong_ == 0 ? 0 : 1;
  }

  void predict_steps(const std::filesystem::path& tables,
                     const std::filesystem::path& decks) const {
    for (const GpuRates& gpu : gpus_) {
      if (!seen_.contains(gpu.capability) || gpu.mma_share == 0) continue;
      for (const StepModel& model : read_models(tables / "decks.txt", decks))
        predict_step(model, gpu);
    }
  }

 private:
  void wrong(const std::string& what) {
    ++wrong_;
    print("WRONG " + what);
  }

  const GpuRates* gpu_of(int capability) const {
    for (const GpuRates& gpu : gpus_)
      if (gpu.capability == capability) return &gpu;
    return nullptr;
  }

  void check(const KernelCode& kernel, const HotKernel& row) {
    ++checked_;
    const Mix mix = mix_of(kernel.code);
    if (mix.local_loads.count() + mix.local_stores.count() > 0)
      wrong(
          format("sm_{} {}: {} bytes stored to local memory, {} loaded: registers do not "
                 "hold what it keeps",
                 kernel.capability, kernel.name, mix.local_stores.bytes(),
                 mix.local_loads.bytes()));
    if (mix.stores.of(16) < row.wide_stores)
      wrong(format("sm_{} {}: {} stores of 16 bytes, kernels.txt expects {}",
                   kernel.capability, kernel.name, mix.stores.of(16), row.wide_stores));
  }

  void describe(const KernelCode& kernel, const HotKernel* row) {
    const Mix mix = mix_of(kernel.code);
    std::string line = format(
        "sm_{} {}: {} registers, local {}/{} B, shared {} B, {} instructions, LDG 16 B "
        "{} of {}, STG 16 B {} of {}, FP32 {}, FP64 {}, MUFU {}, HMMA {}, LDSM {}",
        kernel.capability, kernel.name, kernel.registers, mix.local_stores.bytes(),
        mix.local_loads.bytes(), kernel.shared_bytes, mix.instructions, mix.loads.of(16),
        mix.loads.count(), mix.stores.of(16), mix.stores.count(), mix.fp32, mix.fp64,
        mix.special, mix.tensor, mix.matrix_loads);
    const GpuRates* const gpu = gpu_of(kernel.capability);
    if (row != nullptr && gpu != nullptr) line += prediction(kernel, *row, *gpu);
    print(line);
  }

  std::string prediction(const KernelCode& kernel, const HotKernel& row,
                         const GpuRates& gpu) {
    const int warps = resident_warps(kernel, row, gpu);
    std::string text = format("; predicted: {} of 64 warps", warps);
    const Bound bound = bound_of(kernel, row, gpu);
    if (bound.flop_rate > 0) {
      text += format(", {} TFLOP/s, bound by {}", fixed(bound.flop_rate / 1e12, 0),
                     bound.unit);
      rates_[{kernel.capability, kernel.name}] = bound.flop_rate;
    } else if (bound.seconds > 0) {
      text += format(", {} B and {} instructions an element, bound by {}", row.bytes,
                     fixed(bound.instructions, 1), bound.unit);
    }
    return text;
  }

  void predict_step(const StepModel& model, const GpuRates& gpu) const {
    const auto rate = [&](const char* kernel, const char* rest) {
      const auto found =
          rates_.find({gpu.capability, format("{}<__nv_bfloat16, {}{}>", kernel,
                                              fixed(model.K(), 0), rest)});
      return found == rates_.end() ? 0.0 : found->second;
    };
    const AttentionRates attention{
        rate("forward_tile", ""), rate("queries_backward", ", 2"),
        rate("keys_backward", ""), rate("one_pass_backward", "")};
    if (attention.forward * attention.queries * attention.keys * attention.once == 0)
      return;
    print(format("\npredicted step of {} on {}: {} sequences of {} tokens", model.deck,
                 gpu.name, model.B, model.S));
    double sum = 0;
    for (const StepPart& part : predict(model, gpu, attention)) {
      print(format("  predicted {} ms  {}", fixed(part.seconds * 1e3, 2), part.name));
      sum += part.seconds;
    }
    const double flops =
        (6 * model.parameters() + 12 * model.layers * model.D * model.S) * model.tokens();
    print(format("  predicted {} ms  step: {} tokens/s, MFU {} %", fixed(sum * 1e3, 2),
                 fixed(model.tokens() / sum, 0),
                 fixed(100 * flops / sum / gpu.tensor_rate, 0)));
  }

  std::vector<HotKernel> rows_;
  std::vector<GpuRates> gpus_;
  std::map<int, std::set<const HotKernel*>> seen_;
  std::map<std::pair<int, std::string>, double> rates_;
  bool only_check_;
  int checked_ = 0, wrong_ = 0;
};

int run(int argc, char** argv) {
  int i = 1;
  const bool only_check = argc > 1 && std::string_view(argv[1]) == "--check";
  if (only_check) ++i;
  require(argc - i >= 3, Status::command_line,
          "usage: roofline [--check] TABLES DECKS CUBIN...");
  const std::filesystem::path tables = argv[i], decks = argv[i + 1];
  Report report(tables, only_check);
  for (i += 2; i < argc; ++i) report.add(argv[i]);
  if (!only_check) report.predict_steps(tables, decks);
  return report.finish();
}

}  // namespace
}  // namespace trireme::bench

int main(int argc, char** argv) {
  try {
    return trireme::bench::run(argc, argv);
  } catch (const trireme::Error& error) {
    std::fprintf(stderr, "roofline: %s\n", error.what());
    return static_cast<int>(error.status());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "roofline: %s\n", error.what());
    return 70;
  }
}
