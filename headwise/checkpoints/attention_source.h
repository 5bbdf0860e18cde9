// SPDX-License-Identifier: Apache-2.0
// A checkpoint opened for its attention layers: tensors, config.json, and what both say about each layer. Not
// installed.
#ifndef HEADWISE_CHECKPOINTS_ATTENTION_SOURCE_H_
#define HEADWISE_CHECKPOINTS_ATTENTION_SOURCE_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/checkpoints/attention_choice.h"
#include "headwise/checkpoints/attention_places.h"
#include "headwise/checkpoints/config_file.h"
#include "headwise/checkpoints/layer_facts.h"
#include "headwise/io/safetensors_set.h"

namespace headwise {

// A layer read by the one rule that is left.
struct AttentionReading {
  const AttentionRule* rule = nullptr;
  std::string family;  // the model_type where config.json named the rule
  AttentionShapes shapes;
  std::optional<Index> number{};  // of the layer
};

// What is known of a layer beyond its tensors; no value where nothing says it.
struct AttentionFacts {
  LayerFacts layer;
  std::optional<Index> kv_heads, head_dim;
};

class AttentionSource {
 public:
  // path: as SafetensorsSet takes it. config.json counts where it lies beside the file and has a model_type, unless the
  // file is one that headwise wrote, which says everything itself. `who` starts the ArgumentErrors.
  AttentionSource(std::string who, const std::string& path);

  const SafetensorsSet& set() const { return set_; }
  const std::vector<AttentionPlace>& places() const { return places_; }

  // Throws ArgumentError that lists the layers unless the choice leaves exactly one, FileError when there is none.
  const AttentionPlace& choose(const AttentionChoice& choice) const;

  // The families that names, shapes, config.json and the choice leave. Throws ArgumentError or FileError when none is
  // left.
  std::vector<AttentionReading> readings(const AttentionPlace& place, const AttentionChoice& choice) const;
  // The families whose names and shapes fit, whatever config.json and the metadata say.
  std::vector<AttentionReading> fitting(const AttentionPlace& place) const;
  // The one that is left. Throws also ArgumentError that lists the candidates when there are several.
  AttentionReading reading(const AttentionPlace& place, const AttentionChoice& choice) const;

  // Given facts, then stored ones, then those of config.json and of the rule; two that differ are an ArgumentError, and
  // FileError is thrown for what config.json says and the tensors contradict.
  AttentionFacts facts(const AttentionReading& reading, const LayerFacts& given) const;

 private:
  std::vector<const AttentionRule*> allowed_rules(const AttentionPlace& place, const AttentionChoice& choice) const;
  // The number in the file of a model's layer: several layers of a model may share one.
  Index number_in_file(Index layer) const;
  bool is_decoder() const;
  void check_layer_count() const;
  void complete_from_config(AttentionFacts& facts, const AttentionReading& reading) const;
  void check_heads(AttentionFacts& facts, const AttentionReading& reading) const;

  std::string who_;
  SafetensorsSet set_;
  bool own_ = false;           // written by headwise
  std::string stored_family_;  // in its metadata
  std::optional<ConfigFile> config_;
  std::vector<AttentionPlace> places_;
};

}  // namespace headwise

#endif  // HEADWISE_CHECKPOINTS_ATTENTION_SOURCE_H_
