// References: computed at the start, kept in a file of the run's directory.
// SPDX-License-Identifier: Apache-2.0
#include "train/references.hpp"

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <utility>

#include "base/log.hpp"
#include "base/system_reason.hpp"
#include "base/temporary_files.hpp"
#include "io/digest.hpp"
#include "io/hdf5_file.hpp"
#include "train/answer_pass.hpp"

namespace trireme::train {
namespace {

constexpr const char* values_name = "log_probabilities";

// Of all samples, in their order.
std::string digest_of(const io::SampleSource& source, std::int64_t sequence) {
  io::Digest digest;
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(sequence) + 1);
  for (std::int64_t i = 0; i < source.samples(); ++i) {
    source.sample(i, tokens);
    const io::SampleMarks marks = source.marks(i);
    digest.add(tokens.data(), tokens.size() * sizeof tokens[0]);
    digest.add(marks.answers.data(), marks.answers.size() * sizeof marks.answers[0]);
  }
  return digest.text();
}

std::string dataset_of(const std::string& part) { return part + "/" + values_name; }

class ReferenceFile {
 public:
  ReferenceFile(const config::RunConfig& config)
      : path_(config.run.directory + "/reference.h5"), sequence_(config.model.sequence) {}

  void write(const std::vector<std::pair<std::string, const io::SampleSource*>>& parts,
             std::vector<std::vector<double>>& values) const {
    TemporaryFile unfinished(path_ + ".tmp");
    io::Hdf5File file(unfinished.path(), io::Hdf5File::Mode::create);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const std::string name = dataset_of(parts[i].first);
      file.write(name, TensorView(values[i].data(), DType::f64, {std::ssize(values[i])}));
      file.write_attribute(name, "data_digest", digest_of(*parts[i].second, sequence_));
      file.write_attribute(name, "values_digest", digest_of_values(values[i]));
    }
    file.close();
    unfinished.place([&] {
      if (::rename(unfinished.path().c_str(), path_.c_str()) != 0)
        fail(Status::cannot_create, "{}: cannot be replaced: {}", path_,
             system_reason(errno));
    });
  }

  std::vector<double> read(const std::string& part,
                           const io::SampleSource& source) const {
    const io::Hdf5File file = open();
    const std::string name = dataset_of(part);
    require(file.has(name), Status::bad_content,
            "{}: holds no {}: the data were not there when the run began; start a new "
            "run.directory with model.from = a checkpoint of this run",
            path_, name);
    const auto [type, shape] = file.describe(name);
    const std::string digest = file.has_attribute(name, "data_digest")
                                   ? file.text_attribute(name, "data_digest")
                                   : "";
    require(type == DType::f64 && shape == Shape{source.answers()} &&
                digest == digest_of(source, sequence_),
            Status::bad_content,
            "{}: {} is of other pairs of answers than data has now: a run keeps its "
            "pairs, tokenizer, template, packing and model.sequence; put them back, or "
            "start a new run.directory with model.from = a checkpoint of this run",
            path_, name);
    std::vector<double> values(static_cast<std::size_t>(source.answers()));
    file.read_all(name, TensorView(values.data(), DType::f64, shape));
    require(file.has_attribute(name, "values_digest") &&
                file.text_attribute(name, "values_digest") == digest_of_values(values),
            Status::bad_content,
            "{}: {} was damaged since it was written: copy it from a backup, or start a "
            "new run.directory with model.from = a checkpoint of this run",
            path_, name);
    return values;
  }

 private:
  io::Hdf5File open() const try {
    return io::Hdf5File(path_, io::Hdf5File::Mode::read);
  } catch (const Error& error) {
    throw Error(error.status(),
                std::string(error.what()) +
                    ": it holds what the model at the start made of the answers, without "
                    "which train.objective = \"dpo\" cannot go on; if this checkpoint is "
                    "of another run, start from it by model.from",
                error.where());
  }
  static std::string digest_of_values(const std::vector<double>& values) {
    return io::digest_of(
        {reinterpret_cast<const char*>(values.data()), values.size() * sizeof values[0]});
  }

  std::string path_;
  std::int64_t sequence_;
};

}  // namespace

References::References(const config::RunConfig& config, comm::World& world,
                       comm::Mesh& mesh, engine::Engine& engine,
                       std::function<void()> beat)
    : config_(config),
      world_(world),
      mesh_(mesh),
      engine_(engine),
      beat_(std::move(beat)) {}

std::vector<double> References::compute(const io::SampleSource& source) {
  return AnswerPass(config_, source).run(engine_, mesh_, 0, beat_).log_probabilities;
}

void References::start(std::int64_t step, const io::SampleSource& source,
                       Validation& validation) {
  std::vector<std::pair<std::string, const io::SampleSource*>> parts = {
      {"training", &source}};
  if (validation.has_pairs()) parts.emplace_back("validation", validation.source());
  std::vector<std::vector<double>> values(parts.size());
  const auto begin = std::chrono::steady_clock::now();
  if (step == 0)
    for (std::size_t i = 0; i < parts.size(); ++i) values[i] = compute(*parts[i].second);
  world_.agree([&] {
    if (world_.rank() != 0) return;
    const ReferenceFile file(config_);
    if (step == 0) return file.write(parts, values);
    for (std::size_t i = 0; i < parts.size(); ++i)
      values[i] = file.read(parts[i].first, *parts[i].second);
  });
  for (std::vector<double>& all : values) {
    if (step == 0) break;
    all.resize(static_cast<std::size_t>(parts[&all - values.data()].second->answers()));
    Stream host;  // the others' are zeros
    mesh_.everyone()
        .all_reduce(host, TensorView(all.data(), DType::f64, {std::ssize(all)}))
        .wait();
  }
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  log::info(
      "reference log-probabilities of {} answers by the model at the start, {} "
      "(reference.h5)",
      source.answers(), human_seconds(time.count()));
  training_ = std::move(values[0]);
  if (parts.size() > 1) validation.hold_against(std::move(values[1]));
}

}  // namespace trireme::train
