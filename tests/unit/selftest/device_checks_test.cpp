// Every check of a device passes here, and sees a result that is spoiled.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "selftest/check.hpp"
#include "support/device.hpp"

namespace trireme::selftest {
namespace {

// What a check finds; it may not be made on this device.
Finding find(const Check& check, bool faulty) {
  Probe probe(test::test_device(), faulty);
  try {
    check.run(probe);
  } catch (const Error& error) {
    if (error.status() != Status::resources) throw;
    probe.leave_out(error.what());
  }
  return probe.finding();
}

void expect_sound(const std::vector<Check>& checks) {
  std::set<std::string> names;
  for (const Check& check : checks) {
    SCOPED_TRACE(check.name);
    EXPECT_TRUE(names.insert(check.name).second) << "two checks of one name";
    const Finding right = find(check, false);
    if (!right.left_out.empty()) continue;
    EXPECT_GT(right.comparisons, 0);
    EXPECT_FALSE(right.wrong()) << "error " << right.error << ", bound " << right.bound;
    const Finding spoiled = find(check, true);
    EXPECT_TRUE(spoiled.wrong())
        << "error " << spoiled.error << ", bound " << spoiled.bound;
  }
}

TEST(DeviceChecks, KernelsAndProducts) { expect_sound(kernel_checks()); }

TEST(DeviceChecks, TrainingSteps) { expect_sound(training_checks()); }

}  // namespace
}  // namespace trireme::selftest
