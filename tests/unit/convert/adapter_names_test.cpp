// AdapterNames: what adapters call a model's modules, in files of PEFT.
// SPDX-License-Identifier: Apache-2.0
#include "convert/adapter_names.hpp"

#include "model/adapted_modules.hpp"
#include "unit/convert/config_texts.hpp"

namespace trireme::convert {
namespace {

// transformers 5 loads this module under another name, and PEFT takes the loaded ones.
TEST(AdapterNames, AreThoseOfTheLoadedModel) {
  const auto m = parse(llama(R"("num_local_experts":4)", "mixtral")).model;
  const AdapterNames names(m);
  const std::string gate = "model.layers.1.block_sparse_moe.gate.weight";
  EXPECT_EQ(names.stored_name(gate), "base_model.model.model.layers.1.mlp.gate.weight");
  for (const char* written : {"mlp", "block_sparse_moe"})
    EXPECT_EQ(
        names.find(format("base_model.model.model.layers.1.{}.gate.weight", written))
            .name,
        gate);
  EXPECT_EQ(names.find("base_model.model.model.layers.1.mlp.gates.weight").name, "");
  EXPECT_EQ(model::name_in_files(m, "mlp.gate"), "block_sparse_moe.gate");
  EXPECT_EQ(model::name_in_files(m, "gate"), "gate");
  const auto plain = parse(llama()).model;
  EXPECT_EQ(model::name_in_files(plain, "mlp.gate"), "mlp.gate");
}

// The bias of a router's choice belongs to the router, though nothing learns it.
TEST(AdapterNames, ABufferIsItsModules) {
  EXPECT_EQ(module_of({"layers.1.mlp.gate.e_score_correction_bias", {4}, false}),
            "layers.1.mlp.gate");
  EXPECT_EQ(module_of({"layers.1.mlp.gate.weight", {4, 2}}), "layers.1.mlp.gate");
}

}  // namespace
}  // namespace trireme::convert
