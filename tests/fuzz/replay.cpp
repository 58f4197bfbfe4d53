// Runs a fuzzing target without libFuzzer: its corpus, then mutations of it.
// SPDX-License-Identifier: Apache-2.0
// They are the same every time.
//
// Usage: <target> CORPUS INPUTS      the files of a folder, and that many mutations
//        <target> FILE               one input
// The input in work is always in the file "<target>.input" of the current directory, so
// that it is there when the process ends in the middle.
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "fuzz.hpp"

// There where the modules are watched, though this file may be compiled without.
extern "C" void __sanitizer_print_stack_trace() __attribute__((weak));

namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_bytes = 4096;
constexpr rlim_t most_memory_bytes = rlim_t{4} << 30;

// SplitMix64 (Steele, Lea, Flood 2014).
class Random {
 public:
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  // Below `count`; 0 for 0.
  std::size_t below(std::size_t count) { return count == 0 ? 0 : next() % count; }

 private:
  std::uint64_t state_ = 1;
};

// What parsers stumble over.
constexpr std::array<std::string_view, 28> pieces = {"0",
                                                     "-1",
                                                     "9223372036854775807",
                                                     "-9223372036854775808",
                                                     "18446744073709551616",
                                                     "1e308",
                                                     "1e-310",
                                                     "nan",
                                                     "inf",
                                                     "\"",
                                                     "\\u0000",
                                                     "\\",
                                                     "\n",
                                                     "\r\n",
                                                     "\t",
                                                     "{",
                                                     "}",
                                                     "[",
                                                     "]",
                                                     "[[",
                                                     "=",
                                                     ",",
                                                     ":",
                                                     "null",
                                                     "true",
                                                     "\xff\xfe",
                                                     "#",
                                                     "../"};

void replace_number(std::string& text, Random& random) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto start =
      text.begin() + static_cast<std::ptrdiff_t>(random.below(text.size()));
  const auto begin = std::find_if(start, text.end(), is_digit);
  const auto end = std::find_if_not(begin, text.end(), is_digit);
  text.replace(begin, end, pieces[random.below(8)]);
}

void mutate_once(std::string& text, const std::string& other, Random& random) {
  const std::size_t at = random.below(text.size() + 1);
  const std::size_t length = 1 + random.below(16);
  switch (random.below(8)) {
    case 0:
      if (at < text.size()) text[at] ^= static_cast<char>(1u << random.below(8));
      break;
    case 1:
      if (at < text.size()) text[at] = static_cast<char>(random.next());
      break;
    case 2: text.erase(at, length); break;
    case 3: text.insert(at, text.substr(random.below(text.size() + 1), length)); break;
    case 4: text.insert(at, pieces[random.below(pieces.size())]); break;
    case 5: replace_number(text, random); break;
    case 6: text.resize(at); break;
    default: text = text.substr(0, at) + other.substr(random.below(other.size() + 1));
  }
  if (text.size() > most_bytes) text.resize(most_bytes);
}

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) trireme::fuzz::finding("cannot read " + path.string());
  return {std::istreambuf_iterator<char>(in), {}};
}

void run(const std::string& text, const std::string& kept) {
  std::ofstream(kept, std::ios::binary | std::ios::trunc) << text;
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
}

// Sanitizers reserve terabytes of addresses and have limits of their own.
void limit_memory() {
  if (__sanitizer_print_stack_trace != nullptr) return;
  const rlimit limit{most_memory_bytes, most_memory_bytes};
  ::setrlimit(RLIMIT_AS, &limit);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::fprintf(stderr, "usage: %s CORPUS INPUTS | FILE\n", argv[0]);
    return 64;
  }
  limit_memory();
  const std::string kept = fs::path(argv[0]).filename().string() + ".input";
  std::vector<fs::path> files;
  if (fs::is_directory(argv[1]))
    for (const auto& entry : fs::directory_iterator(argv[1]))
      files.push_back(entry.path());
  else
    files.emplace_back(argv[1]);
  std::sort(files.begin(), files.end());
  std::vector<std::string> corpus;
  for (const auto& file : files) run(corpus.emplace_back(read(file)), kept);
  if (corpus.empty()) trireme::fuzz::finding(std::string("nothing in ") + argv[1]);

  Random random;
  const int mutations = argc > 2 ? std::atoi(argv[2]) : 0;
  for (int i = 0; i < mutations; ++i) {
    std::string text = corpus[random.below(corpus.size())];
    const std::string& other = corpus[random.below(corpus.size())];
    for (std::size_t left = 1 + random.below(4); left > 0; --left)
      mutate_once(text, other, random);
    run(text, kept);
  }
  fs::remove(kept);
  std::printf("%zu inputs of the corpus, %d mutations\n", corpus.size(), mutations);
  return 0;
}
