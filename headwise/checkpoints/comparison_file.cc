// SPDX-License-Identifier: Apache-2.0
#include "headwise/checkpoints/comparison_file.h"

#include <fmt/format.h>

#include <set>

#include "headwise/checkpoints/decoder_json.h"
#include "headwise/checkpoints/training_json.h"
#include "headwise/io/file_error.h"
#include "headwise/io/output_file.h"
#include "headwise/io/utf8.h"
#include "headwise/tensor/errors.h"

namespace headwise {
namespace {

constexpr const char* kFormat = "headwise-comparison";
constexpr const char* kVersion = "1";

// An object within the file, with its key in front of every message.
ConfigFile part_of(const ConfigFile& file, const char* key) {
  if (file.find(key) == nullptr) file.fail(fmt::format("has no \"{}\"", key));
  return {file.path() + ": \"" + key + "\"", file.find(key)->dump()};
}

std::vector<Index> heads_of(const ConfigFile& file, DecoderConfig decoder) {
  const nlohmann::json* given = file.find("heads");
  if (given == nullptr || !given->is_array() || given->empty()) {
    file.fail("\"heads\" must be an array of one head count or more");
  }
  std::vector<Index> heads;
  for (const nlohmann::json& count : *given) {
    if (!count.is_number_unsigned()) file.fail("\"heads\" must be an array of whole numbers");
    heads.push_back(count.get<Index>());
    decoder.heads = heads.back();
    try {
      check_config(decoder);
    } catch (const std::invalid_argument& error) {
      file.fail(std::string("\"heads\": ") + error.what());
    }
  }
  if (std::set<Index>(heads.begin(), heads.end()).size() != heads.size()) file.fail("\"heads\" names a count twice");
  return heads;
}

}  // namespace

void save_comparison(const std::string& path, const TrainingComparison& comparison, const TrainingText& text) {
  if (!is_utf8(text.path)) throw ArgumentError("save_comparison: the text's path is not UTF-8");
  const ByteVocabulary vocabulary = ByteVocabulary::of(text.bytes);
  DecoderConfig decoder = comparison.decoder;
  decoder.heads = comparison.heads.front();
  decoder.vocab = vocabulary.size();
  const nlohmann::ordered_json document{{"format", kFormat},
                                        {"version", kVersion},
                                        {"heads", comparison.heads},
                                        {"seeds", comparison.seeds},
                                        {"decoder", decoder_json(decoder, vocabulary)},
                                        {"training", training_json(comparison.training)},
                                        {"text", text.path},
                                        {"text_fingerprint", text_fingerprint(text.bytes)}};
  OutputFile file(path);
  file.write(document.dump(2) + "\n");
  file.commit();
}

TrainingComparison load_comparison(const std::string& path) {
  const ConfigFile file(path);
  if (file.text("format") != kFormat) {
    file.fail("is no comparison of training runs: \"format\" is " + quote_name(file.text("format")));
  }
  if (file.text("version") != kVersion) {
    file.fail("comparison version " + quote_name(file.text("version")) + " is unknown; headwise reads version " +
              kVersion);
  }
  TrainingComparison comparison;
  comparison.decoder = decoder_config_of(part_of(file, "decoder"));
  const ConfigFile training = part_of(file, "training");
  comparison.training = training_config_of(training);
  try {
    check_config(comparison.training);
  } catch (const std::invalid_argument& error) {
    training.fail(error.what());
  }
  comparison.heads = heads_of(file, comparison.decoder);
  comparison.seeds = file.size("seeds");
  comparison.text_path = file.text("text");
  comparison.text_fingerprint = file.text("text_fingerprint");
  return comparison;
}

}  // namespace headwise
