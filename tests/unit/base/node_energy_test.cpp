// What a node has used, by counters in made-up folders.
// SPDX-License-Identifier: Apache-2.0
#include "base/node_energy.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace trireme {
namespace {

namespace fs = std::filesystem;

class Counters : public testing::Test {
 protected:
  Counters() : root_(fs::path(testing::TempDir()) / "node_energy_test") {
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  ~Counters() override { fs::remove_all(root_); }

  void write(const std::string& name, const std::string& text) const {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << text << "\n";
  }
  void zone(const std::string& folder, const std::string& name, long long microjoules,
            long long range) const {
    write("powercap/" + folder + "/name", name);
    write("powercap/" + folder + "/max_energy_range_uj", std::to_string(range));
    write("powercap/" + folder + "/energy_uj", std::to_string(microjoules));
  }
  NodeEnergy::Places places() const {
    return {(root_ / "energy").string(), (root_ / "powercap").string()};
  }
  NodeEnergy meter(NodeEnergy::Allow allow = NodeEnergy::Allow::processors_too) const {
    return NodeEnergy(allow, places());
  }
  fs::path root_;
};

TEST_F(Counters, OfANodeWithoutAnyNothingIsKnown) {
  EXPECT_TRUE(meter().empty());
  EXPECT_FALSE(meter().joules());
  write("powercap/intel-rapl/enabled", "1");
  EXPECT_FALSE(meter().joules());
}

TEST_F(Counters, OfTheWholeNodeGoBeforeItsProcessors) {
  write("energy", "12345 J 1699999999 us");
  zone("intel-rapl:0", "package-0", 5'000'000, 1'000'000'000);
  for (const auto allow :
       {NodeEnergy::Allow::whole_node, NodeEnergy::Allow::processors_too}) {
    write("energy", "12345 J 1699999999 us");
    NodeEnergy node = meter(allow);
    EXPECT_EQ(node.joules(), 0.0);
    write("energy", "12400 J 1700000009 us");
    zone("intel-rapl:0", "package-0", 9'000'000, 1'000'000'000);
    EXPECT_EQ(node.joules(), 55.0);
    write("energy", "7 J 1700000019 us");  // the node's controller began anew
    EXPECT_EQ(node.joules(), 62.0);
  }
}

// Memory counts beside its package; cores are part of it; the platform and the second
// view of a package would count it again.
TEST_F(Counters, OfProcessorsAreThoseOfPackagesAndMemory) {
  constexpr long long range = 1'000'000'000'000;
  const auto use = [&](long long x) {
    zone("intel-rapl:0", "package-0", 100 + x, range);
    zone("intel-rapl:0:0", "core", 200 + 10 * x, range);
    zone("intel-rapl:0:1", "dram", 300 + 100 * x, range);
    zone("intel-rapl:1", "package-1", 400 + 1000 * x, range);
    zone("intel-rapl:2", "psys", 500 + 10'000 * x, range);
    zone("intel-rapl-mmio:0", "package-0", 600 + 100'000 * x, range);
  };
  use(0);
  NodeEnergy node = meter();
  use(1'000'000);
  EXPECT_DOUBLE_EQ(node.joules().value_or(0), 1101.0);
  EXPECT_TRUE(meter(NodeEnergy::Allow::whole_node).empty());
}

TEST_F(Counters, BeginAnewAboveTheirRange) {
  zone("intel-rapl:0", "package-0", 262'000'000, 262'143'000);
  NodeEnergy node = meter();
  zone("intel-rapl:0", "package-0", 1'000'000, 262'143'000);
  EXPECT_NEAR(node.joules().value_or(0), 1.143, 1e-9);
  zone("intel-rapl:0", "package-0", 3'000'000, 262'143'000);
  EXPECT_NEAR(node.joules().value_or(0), 3.143, 1e-9);
}

TEST_F(Counters, ThatCannotBeReadAnyMoreSayNothing) {
  zone("intel-rapl:0", "package-0", 1'000'000, 262'143'000);
  zone("intel-rapl:1", "package-1", 1'000'000, 262'143'000);
  NodeEnergy node = meter();
  EXPECT_TRUE(node.joules());
  fs::remove(root_ / "powercap/intel-rapl:1/energy_uj");
  EXPECT_FALSE(node.joules());
  zone("intel-rapl:1", "package-1", 2'000'000, 262'143'000);
  EXPECT_FALSE(node.joules());
}

}  // namespace
}  // namespace trireme
