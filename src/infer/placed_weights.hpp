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

// Owns the weights of a stage. Those of the device are there for good. Others are in a
// place while their module runs, and those of the module behind it are on their way
// through a second one: a thread reads them from the disk, a queue copies them to a GPU.
// What has a place of its own (one or two modules) comes once. Weights that are codes
// belong to a CodedWeights; those of the disk have theirs while they are in a place.
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
  struct Passing {
    Param* param = nullptr;
    Tier tier = Tier::disk;
    std::size_t offset = 0;       // in the place
    std::size_t disk_offset = 0;  // in the host's part of it, of a place on a GPU
    TensorView waiting{};         // on the host
    // Of a weight that is codes: where they come. It has no bytes in the place.
    WeightCodes* codes = nullptr;
  };
  struct Module {
    std::vector<Passing> passing;
    std::size_t bytes = 0, disk_bytes = 0;  // of a place, without codes
    bool reads = false;                     // from the disk
  };
  struct Place {
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
  void make_places();
  TensorView in_place(const Place& place, const Passing& passing) const;
  void bind(const Place& place, const Module& module);
  void fetch_passing(int index);
  void read_disk(const Place& place, const Module& module);
  void copy(Place& place, const Module& module, Tier tier);
  // The place that has the module's weights, at once or when what is under way is there.
  Place& bring(int module);
  void start(Place& place, int module);
  void arrive(Place& place);
  int behind(int module) const;

  const io::TensorSource& source_;
  Device device_;
  DType compute_;
  model::CodedWeights* codes_;
  int first_module_ = 0;
  std::map<const Param*, Buffer> kept_;
  std::vector<Module> modules_;
  std::map<const Param*, WeightCodes*> codes_of_;  // null: they stay
  std::array<Place, 2> places_;
  bool two_places_ = false;
  Place* under_way_ = nullptr;
  Place* in_use_ = nullptr;
  SideStream copies_;
  std::future<void> reading_;  // waited for where this ends
  bool idle_ = false;
};

}  // namespace trireme::infer
