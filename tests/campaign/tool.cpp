// campaign_tool: storms of signals, flipped bits, mutated decks, hostile files.
// SPDX-License-Identifier: Apache-2.0
// It also edits manifests. Everything is drawn from a seed.
#include "campaign/tool.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>

namespace trireme::campaign {

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error(path + ": cannot be read");
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

void write_file(const std::string& path, std::string_view bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!out.flush()) throw std::runtime_error(path + ": cannot be written");
}

namespace {

int signal_named(const std::string& name) {
  const std::map<std::string, int> signals = {
      {"USR1", SIGUSR1}, {"USR2", SIGUSR2}, {"TERM", SIGTERM}, {"INT", SIGINT},
      {"CHLD", SIGCHLD}, {"CONT", SIGCONT}, {"URG", SIGURG},   {"WINCH", SIGWINCH}};
  return signals.at(name);
}

// storm SEED COUNT GAP SIGNAL... PID...: up to COUNT signals with pauses of less than GAP
// microseconds, until every process is gone.
void storm(const Words& words) {
  Draws draws(std::stoull(words.at(0)));
  const auto count = std::stoull(words.at(1));
  const auto gap = std::stoull(words.at(2));
  std::vector<int> signals;
  std::vector<pid_t> processes;
  for (auto word = words.begin() + 3; word != words.end(); ++word) {
    if (std::isdigit(static_cast<unsigned char>(word->front())))
      processes.push_back(std::stoi(*word));
    else
      signals.push_back(signal_named(*word));
  }
  std::size_t sent = 0;
  while (sent < count && !processes.empty()) {
    const std::size_t chosen = draws.below(processes.size());
    if (::kill(processes[chosen], draws.one_of(signals)) == 0)
      ++sent;
    else
      processes.erase(processes.begin() + static_cast<std::ptrdiff_t>(chosen));
    ::usleep(static_cast<useconds_t>(draws.below(gap) + 1));
  }
  std::printf("%zu signals\n", sent);
}

// damage FILE KIND SEED: to the bytes of a file.
void damage(const Words& words) {
  const std::string& path = words.at(0);
  const std::string& kind = words.at(1);
  Draws draws(std::stoull(words.at(2)));
  std::string bytes = read_file(path);
  if (bytes.empty()) throw std::runtime_error(path + ": is empty");
  const std::size_t at = draws.below(bytes.size());
  const std::size_t page = at / 4096 * 4096;
  if (kind == "flip") {
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << draws.below(8)));
  } else if (kind == "flip_head") {  // where HDF5 and JSON keep what they know
    const std::size_t near = draws.below(std::min<std::size_t>(bytes.size(), 2048));
    bytes[near] = static_cast<char>(bytes[near] ^ (1 << draws.below(8)));
  } else if (kind == "cut") {
    bytes.resize(at);
  } else if (kind == "cut_one") {
    bytes.pop_back();
  } else if (kind == "append") {
    bytes += static_cast<char>(draws.below(256));
  } else if (kind == "zero_page") {
    std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(page),
                std::min<std::size_t>(4096, bytes.size() - page), '\0');
  } else if (kind == "noise") {
    for (auto& byte : bytes) byte = static_cast<char>(draws.below(256));
  } else if (kind == "empty") {
    bytes.clear();
  } else {
    throw std::runtime_error("unknown damage " + kind);
  }
  write_file(path, bytes);
}

void print(const Words& words) {
  for (const auto& word : words) std::printf("%s\n", word.c_str());
}

void manifest(const Words& words) {
  if (words.at(0) == "kinds")
    print(manifest_kinds());
  else if (words.at(0) == "adopt")
    adopt_file(words.at(1), words.at(2));
  else
    std::printf(
        "%s\n",
        edit_manifest(words.at(0), words.at(1), std::stoull(words.at(2))).c_str());
}

void hdf5(const Words& words) {
  const std::string& what = words.at(0);
  if (what == "check")
    check_hdf5(words.at(1));
  else if (what == "tokens")
    write_tokens(words.at(1), words.at(2), words.at(3), std::stoull(words.at(4)));
  else if (what == "tokens_kinds")
    print(tokens_kinds());
  else if (what == "spoil")
    spoil_dataset(words.at(1), words.at(2), words.at(3), std::stoull(words.at(4)));
  else if (what == "spoil_kinds")
    print(spoil_kinds());
  else
    throw std::runtime_error("unknown: hdf5 " + what);
}

void deck(const Words& words) {
  const std::string text = mutated_deck(read_file(words.at(0)), std::stoull(words.at(1)));
  std::fwrite(text.data(), 1, text.size(), stdout);
}

}  // namespace

int run(const Words& words) {
  const std::map<std::string, void (*)(const Words&)> commands = {{"storm", storm},
                                                                  {"damage", damage},
                                                                  {"manifest", manifest},
                                                                  {"hdf5", hdf5},
                                                                  {"deck", deck}};
  const auto command = words.empty() ? commands.end() : commands.find(words.front());
  if (command == commands.end()) {
    std::fprintf(stderr, "usage: campaign_tool storm|damage|manifest|hdf5|deck ...\n");
    return 64;
  }
  command->second({words.begin() + 1, words.end()});
  return std::fflush(stdout) == 0 ? 0 : 74;
}

}  // namespace trireme::campaign

int main(int argc, char** argv) {
  try {
    return trireme::campaign::run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "campaign_tool: %s\n", error.what());
    return 70;
  }
}
