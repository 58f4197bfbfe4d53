// The order of threads and how streams run.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda_emulation/settings.hpp"

#include <charconv>
#include <cstdlib>
#include <string>

#include "kernels/cuda_emulation/fail.hpp"

namespace trireme::cuda_emulation {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

Order order_from(const std::string& text) {
  const std::string shuffle = "shuffle:";
  if (text.empty() || text == "forward") return {Order::Kind::forward, 0};
  if (text == "reverse") return {Order::Kind::reverse, 0};
  Order order{Order::Kind::shuffle, 0};
  const char* first = text.data() + shuffle.size();
  const char* last = text.data() + text.size();
  if (text.starts_with(shuffle) && first != last) {
    const auto [end, error] = std::from_chars(first, last, order.seed);
    if (error == std::errc() && end == last) return order;
  }
  fail("TRIREME_EMULATION_ORDER = \"" + text +
       "\"; use forward, reverse, or shuffle:SEED with a whole number");
}

bool lazy_from(const std::string& text) {
  if (text.empty() || text == "lazy") return true;
  if (text == "eager") return false;
  fail("TRIREME_EMULATION_STREAMS = \"" + text + "\"; use lazy or eager");
}

}  // namespace

Settings& settings() {
  static Settings current{order_from(environment("TRIREME_EMULATION_ORDER")),
                          lazy_from(environment("TRIREME_EMULATION_STREAMS"))};
  return current;
}

void set_order(Order order) { settings().order = order; }
void set_lazy_streams(bool lazy) { settings().lazy_streams = lazy; }
Order order() { return settings().order; }
void set_reads_host_pages(bool reads) { settings().reads_host_pages = reads; }
bool lazy_streams() { return settings().lazy_streams; }

}  // namespace trireme::cuda_emulation
