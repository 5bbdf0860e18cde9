// SPDX-License-Identifier: Apache-2.0
#include "headwise/checkpoints/training_file.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>
#include <vector>

#include "headwise/checkpoints/decoder_json.h"
#include "headwise/checkpoints/training_json.h"
#include "headwise/io/file_error.h"
#include "headwise/io/safetensors.h"
#include "headwise/io/utf8.h"
#include "headwise/layers/state.h"
#include "headwise/tensor/errors.h"
#include "headwise/tensor/shape_check.h"

namespace headwise {
namespace {

constexpr const char* kFormat = "headwise-training";
constexpr const char* kVersion = "1";
constexpr const char* kFirst = "adamw.first.";
constexpr const char* kSecond = "adamw.second.";
constexpr const char* kLosses = "curve.losses";            // float64 (steps,)
constexpr const char* kEvaluations = "curve.evaluations";  // float64 (evaluations, 2): step, loss

// A checkpoint, as far as it can be understood without the text.
class TrainingReader {
 public:
  explicit TrainingReader(const std::string& path) : file_(path) {
    if (text("format") != kFormat) fail("is no training run: metadata 'format' is " + quote_name(text("format")));
    if (text("version") != kVersion) {
      fail("training version " + quote_name(text("version")) + " is unknown; headwise reads version " + kVersion);
    }
  }

  const std::string& text(const std::string& key) const {
    const auto found = file_.metadata().find(key);
    if (found == file_.metadata().end()) fail("is no training run: there is no metadata " + quote_name(key));
    return found->second;
  }

  ConfigFile config(const char* key) const { return ConfigFile(file_.path() + ": metadata '" + key + "'", text(key)); }

  // Those whose names start so.
  std::vector<NamedTensor> tensors(std::string_view start) const {
    std::vector<NamedTensor> found;
    for (NamedTensor& tensor : file_.tensors()) {
      if (tensor.name.starts_with(start)) found.push_back(std::move(tensor));
    }
    return found;
  }

  std::vector<NamedTensor> weights() const {
    std::vector<NamedTensor> found;
    for (NamedTensor& tensor : file_.tensors()) {
      if (!tensor.name.starts_with("adamw.") && !tensor.name.starts_with("curve.")) found.push_back(std::move(tensor));
    }
    return found;
  }

  std::vector<double> numbers(const char* name, std::size_t columns) const {
    const NamedTensor tensor = file_.tensor(name);
    const std::size_t rank = columns == 1 ? 1 : 2;
    if (tensor.dtype != DType::kFloat64 || tensor.shape.size() != rank ||
        (rank == 2 && tensor.shape[1] != static_cast<Index>(columns))) {
      fail("tensor " + quote_name(name) + " has another type or shape than a curve: " +
           std::string(dtype_name(tensor.dtype)) + " " + format_shape(tensor.shape));
    }
    std::vector<double> values(static_cast<std::size_t>(tensor.elements()));
    if (!values.empty()) std::memcpy(values.data(), tensor.data, tensor.bytes());
    return values;
  }

  [[noreturn]] void fail(const std::string& reason) const { throw FileError(file_.path(), reason); }
  const SafetensorsFile& file() const { return file_; }

 private:
  SafetensorsFile file_;
};

template <class Call>
void as_file_error(const std::string& path, const Call& call) {
  try {
    call();
  } catch (const std::invalid_argument& error) {
    throw FileError(path, error.what());
  }
}

std::vector<Evaluation> evaluations_of(const std::vector<double>& values) {
  std::vector<Evaluation> result;
  for (std::size_t n = 0; n + 1 < values.size(); n += 2)
    result.push_back({static_cast<Index>(values[n]), values[n + 1]});
  return result;
}

NamedTensor numbers_tensor(const char* name, std::vector<Index> shape, const std::vector<double>& values) {
  return {name, DType::kFloat64, std::move(shape), reinterpret_cast<const std::byte*>(values.data())};
}

}  // namespace

void save_training(const std::string& path, Training& training, const TrainingText& text) {
  if (!is_utf8(text.path)) throw ArgumentError("save_training: the text's path is not UTF-8");
  std::vector<NamedTensor> tensors = training.decoder().state();
  for (const auto& moments : {training.adamw().first_moments(kFirst), training.adamw().second_moments(kSecond)}) {
    for (NamedTensor& tensor : named_tensors<float>(moments)) tensors.push_back(std::move(tensor));
  }
  std::vector<double> evaluations;
  for (const Evaluation& evaluation : training.evaluations()) {
    evaluations.insert(evaluations.end(), {static_cast<double>(evaluation.step), evaluation.loss});
  }
  tensors.push_back(numbers_tensor(kLosses, {training.steps_done()}, training.losses()));
  tensors.push_back(numbers_tensor(kEvaluations, {static_cast<Index>(training.evaluations().size()), 2}, evaluations));
  write_safetensors(path, tensors,
                    {{"format", kFormat},
                     {"version", kVersion},
                     {"step", std::to_string(training.steps_done())},
                     {"decoder", decoder_json(training.decoder().config(), training.vocabulary()).dump()},
                     {"training", training_json(training.config()).dump()},
                     {"text", text.path},
                     {"text_fingerprint", text_fingerprint(text.bytes)}});
}

std::string training_text_path(const std::string& path) { return TrainingReader(path).text("text"); }

std::unique_ptr<Training> load_training(const std::string& path, const TrainingText& text) {
  const TrainingReader reader(path);
  check_text(text, reader.text("text_fingerprint"));
  const DecoderConfig decoder = decoder_config_of(reader.config("decoder"));
  const TrainingConfig config = training_config_of(reader.config("training"));
  check_decoder_tensors(reader.file(), decoder);
  std::unique_ptr<Training> training;
  as_file_error(path, [&] {
    training = std::make_unique<Training>(decoder, config, text.bytes);
    training->decoder().load(reader.weights());
    const std::string who = "checkpoint";
    load_parameters<float>(who, training->adamw().first_moments(kFirst), reader.tensors(kFirst), {});
    load_parameters<float>(who, training->adamw().second_moments(kSecond), reader.tensors(kSecond), {});
  });
  const std::vector<double> losses = reader.numbers(kLosses, 1);
  if (std::to_string(losses.size()) != reader.text("step") ||
      static_cast<Index>(losses.size()) > config.learning_rate.steps) {
    reader.fail(fmt::format("metadata 'step' is {}, the curve has {} losses, of {} steps",
                            quote_name(reader.text("step")), losses.size(), config.learning_rate.steps));
  }
  training->resume(losses, evaluations_of(reader.numbers(kEvaluations, 2)));
  return training;
}

}  // namespace headwise
