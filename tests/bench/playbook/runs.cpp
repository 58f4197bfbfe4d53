// Reads the table of runs, and cuts models into stages.
// SPDX-License-Identifier: Apache-2.0
#include "bench/playbook/runs.hpp"

#include <array>
#include <cmath>
#include <cstddef>
#include <exception>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>
#include <utility>

#include "base/error.hpp"

namespace trireme::bench {
namespace {

std::vector<std::string> split_line(std::string line) {
  if (!line.empty() && line.back() == '\r') line.pop_back();
  std::vector<std::string> words;
  std::istringstream in(line);
  for (std::string word; std::getline(in, word, ',');) words.push_back(word);
  if (!line.empty() && line.back() == ',') words.emplace_back();
  return words;
}

// One line by the names of its columns, with where it stands.
class Line {
 public:
  Line(std::string where, const std::map<std::string, std::size_t>& columns,
       std::vector<std::string> words)
      : where_(std::move(where)), columns_(columns), words_(std::move(words)) {
    require(words_.size() == columns_.size(), Status::bad_content,
            "{}: {} values, but the first line names {} columns", where_, words_.size(),
            columns_.size());
  }

  const std::string& word(const std::string& column) const {
    return words_[columns_.at(column)];
  }

  double number(const std::string& column) const {
    const std::string& text = word(column);
    std::size_t used = 0;
    double value = 0;
    try {
      value = std::stod(text, &used);
    } catch (const std::exception&) {
      used = 0;
    }
    require(used == text.size() && used > 0, Status::bad_content,
            "{}: {} = '{}' is no number", where_, column, text);
    return value;
  }

  // A count of at least `least` and at most a million.
  int count(const std::string& column, int least) const {
    const double value = number(column);
    require(value >= least && value <= 1e6 && value == std::floor(value),
            Status::bad_content, "{}: {} = {} must be a whole number from {} to 1000000",
            where_, column, word(column), least);
    return static_cast<int>(value);
  }

  const std::string& where() const { return where_; }

 private:
  std::string where_;
  const std::map<std::string, std::size_t>& columns_;
  std::vector<std::string> words_;
};

const PlaybookModel* find_model(const Line& line) {
  const std::string& name = line.word("model");
  for (const PlaybookModel& model : playbook_models())
    if (model.name == name) return &model;
  fail(Status::bad_content, "{}: model '{}' is unknown; known are 1B, 3B, 8B, 80B",
       line.where(), name);
}

PlaybookRun run_of(const Line& line) {
  PlaybookRun run;
  run.model = find_model(line);
  run.nodes = line.count("nodes", 1);
  run.micro = line.count("mbs", 1);
  run.microbatches = line.count("gradacc", 1);
  run.batch = line.count("gbs", 1);
  run.data = line.count("dp", 1);
  run.pipeline = line.count("pp", 1);
  run.tensor = line.count("tp", 1);
  run.zero1 = line.count("zero", 0) > 0;
  run.mfu = line.number("mfu_pct");
  const double rate = line.number("tok_s_gpu");
  run.seconds = rate > 0
                    ? run.batch * playbook_sequence / (rate * ranks_of_node * run.nodes)
                    : std::numeric_limits<double>::quiet_NaN();
  return run;
}

}  // namespace

const std::vector<PlaybookModel>& playbook_models() {
  static const std::vector<PlaybookModel> models = {{"1B", 16, 2048, 8192},
                                                    {"3B", 28, 3072, 8192},
                                                    {"8B", 32, 4096, 14336},
                                                    {"80B", 80, 8192, 28672}};
  return models;
}

bool PlaybookRun::judgeable() const {
  return std::isfinite(seconds) && micro * microbatches * data == batch &&
         static_cast<double>(data) * pipeline * tensor == nodes * ranks_of_node;
}

std::vector<PlaybookRun> read_runs(const std::filesystem::path& path) {
  std::ifstream in(path);
  require(in.good() && !std::filesystem::is_directory(path), Status::missing_input,
          "'{}' cannot be read: give a table of runs", path.string());
  std::string text;
  std::getline(in, text);
  std::map<std::string, std::size_t> columns;
  for (const std::string& name : split_line(text)) columns.emplace(name, columns.size());
  constexpr std::array needed = {"model", "nodes", "mbs",  "gradacc", "gbs",      "dp",
                                 "pp",    "tp",    "zero", "mfu_pct", "tok_s_gpu"};
  for (const char* name : needed)
    require(columns.contains(name), Status::bad_content,
            "'{}': the first line must name the columns, and there is no '{}'",
            path.string(), name);
  std::vector<PlaybookRun> runs;
  for (std::size_t number = 2; std::getline(in, text); ++number) {
    if (text.empty() || text == "\r") continue;
    runs.push_back(run_of(
        {format("'{}', line {}", path.string(), number), columns, split_line(text)}));
  }
  require(!runs.empty(), Status::bad_content, "'{}' holds no runs", path.string());
  return runs;
}

PlaybookCut cut_playbook(const PlaybookModel& model, int pipeline) {
  const double h = model.hidden;
  const double layer = 4 * h * h + 3 * h * model.feed_forward;
  const double total = model.layers * layer + playbook_vocabulary * h;
  PlaybookCut cut;
  cut.layers.assign(static_cast<std::size_t>(pipeline), 0);
  int stage = 0;
  const auto stage_up_to = [&](double work) {
    while (stage + 1 < pipeline && work * pipeline > total * (stage + 1)) ++stage;
    return stage;
  };
  for (double i = 1; i <= model.layers; ++i)
    cut.layers[static_cast<std::size_t>(stage_up_to(i * layer))] += 1;
  cut.head = stage_up_to(total);
  return cut;
}

}  // namespace trireme::bench
