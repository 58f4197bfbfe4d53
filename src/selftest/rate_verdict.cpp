// What the rates of all ranks say of their hosts.
// SPDX-License-Identifier: Apache-2.0
#include "selftest/rate_verdict.hpp"

#include <algorithm>

#include "base/counted.hpp"
#include "base/error.hpp"
#include "base/format.hpp"
#include "base/median.hpp"

namespace trireme::selftest {
namespace {

RateSpread spread_of(std::span<const double> rates, std::span<const std::uint8_t> kinds,
                     int kind) {
  RateSpread spread;
  spread.kind = kind;
  std::vector<double> all;
  for (std::size_t r = 0; r < rates.size(); ++r) {
    if (kinds[r] != kind || rates[r] < 0) continue;
    if (all.empty() || rates[r] < spread.slowest) {
      spread.slowest = rates[r];
      spread.slowest_rank = static_cast<int>(r);
    }
    spread.fastest = std::max(spread.fastest, rates[r]);
    all.push_back(rates[r]);
  }
  spread.ranks = static_cast<int>(all.size());
  if (all.empty()) return spread;
  spread.median = median(std::move(all));
  return spread;
}

}  // namespace

RateVerdict judge(std::span<const double> rates, std::span<const std::uint8_t> kinds,
                  double least_share) {
  require(rates.size() == kinds.size(), "{} rates of {} ranks", rates.size(),
          kinds.size());
  RateVerdict verdict;
  const int last = kinds.empty() ? -1 : *std::max_element(kinds.begin(), kinds.end());
  std::vector<double> medians;
  for (int kind = 0; kind <= last; ++kind) {
    const RateSpread spread = spread_of(rates, kinds, kind);
    medians.push_back(spread.median);
    if (spread.ranks > 0) verdict.kinds.push_back(spread);
  }
  for (std::size_t r = 0; r < rates.size(); ++r) {
    const double median = medians[kinds[r]];
    if (rates[r] < 0 || !(rates[r] < least_share * median)) continue;
    verdict.slow.push_back({static_cast<int>(r), rates[r] / median});
  }
  return verdict;
}

void NamedHosts::add_slow(const std::string& what, const std::vector<SlowRank>& slow) {
  for (const SlowRank& one : slow) {
    Reasons& reasons = named_[hosts_.host(one.rank)];
    const auto known =
        std::find_if(reasons.begin(), reasons.end(),
                     [&](const Reason& other) { return other.what == what; });
    if (known == reasons.end())
      reasons.push_back({what, one});
    else if (one.share < known->worst.share)
      known->worst = one;
  }
}

void NamedHosts::add_wrong(int rank) {
  named_[hosts_.host(rank)].push_back({"memory", {rank, 0}, true});
}

std::vector<std::map<std::string, NamedHosts::Reasons>::const_iterator>
NamedHosts::worst_first() const {
  std::vector<std::map<std::string, Reasons>::const_iterator> order;
  for (auto at = named_.begin(); at != named_.end(); ++at) order.push_back(at);
  const auto worst = [](const Reasons& reasons) {
    double least = 1;
    for (const Reason& reason : reasons) least = std::min(least, reason.worst.share);
    return least;
  };
  std::stable_sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
    return worst(a->second) < worst(b->second);
  });
  return order;
}

std::vector<std::string> NamedHosts::names(std::size_t most) const {
  std::vector<std::string> texts;
  for (const auto& at : worst_first()) {
    if (texts.size() == most) {
      texts.push_back(format("{} more", named_.size() - most));
      break;
    }
    texts.push_back(at->first);
  }
  return texts;
}

std::vector<std::string> NamedHosts::lines(std::size_t most) const {
  std::vector<std::string> texts;
  for (const auto& at : worst_first()) {
    if (texts.size() == most) {
      const auto rest = static_cast<std::int64_t>(named_.size() - most);
      texts.push_back(format("and {} more", counted(rest, "host")));
      break;
    }
    std::string text;
    for (const Reason& reason : at->second) {
      text += text.empty() ? "" : ", ";
      text += reason.wrong ? format("wrong bytes in memory (rank {})", reason.worst.rank)
                           : format("{} {} of the median (rank {})", reason.what,
                                    fixed(reason.worst.share, 2), reason.worst.rank);
    }
    texts.push_back(format("host {}: {}", at->first, text));
  }
  return texts;
}

std::string NamedHosts::exclude_list() const {
  std::string text;
  for (const auto& [host, reasons] : named_) text += host + "\n";
  return text;
}

}  // namespace trireme::selftest
