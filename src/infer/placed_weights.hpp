// PlacedWeights: brings weights from where they lie to where they are used, in time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <future>
#include <map>
#include <string>
#include <vector>

#include "base/event.hpp"
#include "base/memory.hpp"
#include "base/weight_access.hpp"
#include "infer/placement.hpp"
#include "io/tensor_source.hpp"
#include "model/coded_weights.hpp"

namespace trireme::infer {

// Owns a stage's weights. Weights of Tier::device stay on the device. Others are streamed
// through two buffers of the size of the largest streamed module: while one module runs,
// the next one is read from disk (by a thread) and copied to the GPU (on a side stream).
// If at most two modules are streamed, each keeps its buffer and is read once. Quantized
// weights are held by a CodedWeights: those on disk are read with their module, take no
// bytes of its buffer, and are dropped when the next module takes that buffer.
class PlacedWeights final : public WeightAccess {
 public:
  // tiers: of the whole tensors of the stage, by name. Reads what stays in memory, on
  // this thread. The stage, on whose Params the weights are bound, and the source outlive
  // it; the source is read by one thread at a time. codes: gets what the source has as
  // codes, on hosts, and outlives it; null: all are numbers. Throws as the source does.
  PlacedWeights(model::Stage& stage, const std::map<std::string, Tier>& tiers,
                const io::TensorSource& source, Device device, DType compute,
                model::CodedWeights* codes = nullptr);
  ~PlacedWeights() override;

  void fetch(int module, Direction direction) override;
  void release(int module) override;

  // While it is idle, modules run without their weights: on the meta device.
  void set_idle(bool idle) { idle_ = idle; }

 private:
  struct StreamedParam {
    Param* param = nullptr;
    Tier tier = Tier::disk;
    std::size_t offset = 0;       // in StreamBuffer::memory, in bytes
    std::size_t disk_offset = 0;  // in StreamBuffer::staging, in bytes
    TensorView host_copy{};       // of Tier::host
    // Of a quantized weight: where its codes are read to. It takes no bytes of the
    // buffer.
    WeightCodes* codes = nullptr;
  };
  struct Module {
    std::vector<StreamedParam> streamed;
    std::size_t bytes = 0, disk_bytes = 0;  // of memory and of staging, without codes
    bool reads = false;                     // from the disk
  };
  struct StreamBuffer {
    int module = -1;
    Buffer memory;   // on the device
    Buffer staging;  // of a GPU: in host memory, for what comes from the disk
    Event copied, used;
  };
  void keep(Param& param, Tier tier, const io::TensorSource& source);
  // Gives what the source has as codes to `codes_`: those of the disk without their
  // boxes.
  void take_codes(const std::vector<ParamModule>& modules,
                  const std::map<std::string, Tier>& tiers);
  std::vector<PlacedCodes> read_codes(const Param& param) const;
  static void drop_codes(const Module& module);
  void add_module(const ParamModule& module, const std::map<std::string, Tier>& tiers);
  void make_buffers();
  TensorView view_in(const StreamBuffer& buffer, const StreamedParam& streamed) const;
  void bind(const StreamBuffer& buffer, const Module& module);
  void fetch_streamed(int index);
  void read_disk(const StreamBuffer& buffer, const Module& module);
  void copy(StreamBuffer& buffer, const Module& module, Tier tier);
  // The buffer that holds the module's weights, after waiting for what is under way.
  StreamBuffer& fetch_into_buffer(int module);
  void start(StreamBuffer& buffer, int module);
  void wait_for_fetch(StreamBuffer& buffer);
  // The next module in the order of forward that is streamed; after the last, the first.
  int next_streamed(int module) const;

  const io::TensorSource& source_;
  Device device_;
  DType compute_;
  model::CodedWeights* codes_;
  int first_module_ = 0;
  std::map<const Param*, Buffer> kept_;
  std::vector<Module> modules_;
  std::map<const Param*, WeightCodes*> codes_of_;  // null: they stay
  std::array<StreamBuffer, 2> buffers_;
  bool double_buffered_ = false;
  StreamBuffer* under_way_ = nullptr;
  StreamBuffer* in_use_ = nullptr;
  SideStream copies_;
  std::future<void> reading_;  // waited for where this ends
  bool idle_ = false;
};

}  // namespace trireme::infer
