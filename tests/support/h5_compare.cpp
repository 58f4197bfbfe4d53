// h5_compare A.h5 B.h5 LIMIT: the relative L2 difference of every dataset, in double.
// SPDX-License-Identifier: Apache-2.0
// Fails when a dataset is missing on one side, has another shape, or differs by more than
// LIMIT.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "io/hdf5_file.hpp"

namespace {

std::vector<double> load(const trireme::io::Hdf5File& file, const std::string& name) {
  const auto [dtype, shape] = file.describe(name);
  std::vector<double> values(static_cast<std::size_t>(shape.elements()));
  file.read_all(name, trireme::TensorView(values.data(), trireme::DType::f64, shape));
  return values;
}

int compare(const std::string& left_path, const std::string& right_path, double limit) {
  using trireme::io::Hdf5File;
  const Hdf5File left(left_path, Hdf5File::Mode::read),
      right(right_path, Hdf5File::Mode::read);
  if (left.datasets() != right.datasets()) {
    std::printf("the files hold different datasets\n");
    return 1;
  }
  int failures = left.datasets().empty() ? 1 : 0;
  double worst = 0;
  for (const std::string& name : left.datasets()) {
    const auto a = load(left, name), b = load(right, name);
    double difference = a.size() == b.size() ? 0 : INFINITY, size = 0;
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
      difference += (a[i] - b[i]) * (a[i] - b[i]);
      size += b[i] * b[i];
    }
    const double relative = std::sqrt(difference / (size > 0 ? size : 1));
    worst = std::max(worst, relative);
    if (!(relative <= limit)) {
      std::printf("%s differs by %g\n", name.c_str(), relative);
      ++failures;
    }
  }
  std::printf("%zu datasets, worst relative difference %g\n", left.datasets().size(),
              worst);
  return failures == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: h5_compare A.h5 B.h5 LIMIT\n");
    return 2;
  }
  try {
    return compare(argv[1], argv[2], std::strtod(argv[3], nullptr));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
