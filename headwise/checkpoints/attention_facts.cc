// SPDX-License-Identifier: Apache-2.0
// What the call, the metadata, config.json and the rule say about a layer, put together.
#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "headwise/checkpoints/attention_source.h"
#include "headwise/checkpoints/complete_fact.h"
#include "headwise/checkpoints/rotary_facts.h"
#include "headwise/io/file_error.h"

namespace headwise {
namespace {

constexpr const char* kHeadKeys[] = {"num_attention_heads", "n_head", "n_heads"};
constexpr const char* kLayerKeys[] = {"num_hidden_layers", "n_layer", "n_layers", "num_layers"};
constexpr const char* kWidthKeys[] = {"hidden_size", "n_embd", "dim"};
constexpr const char* kDropoutKeys[] = {"attention_probs_dropout_prob", "attn_pdrop", "attention_dropout"};

template <std::size_t kCount>
const char* first_key(const ConfigFile& config, const char* const (&keys)[kCount]) {
  for (const char* key : keys) {
    if (config.find(key) != nullptr) return key;
  }
  return nullptr;
}

std::string heads_text(Index heads) { return fmt::format("{} {}", heads, heads == 1 ? "head" : "heads"); }

// Settings under which the family's attention computes something else.
void refuse_other_models(const ConfigFile& config) {
  config.require_if_given("position_embedding_type", "absolute");
  config.require_if_given("scale_attn_weights", true);
  config.require_if_given("scale_attn_by_inverse_layer_idx", false);
}

}  // namespace

AttentionFacts AttentionSource::facts(const AttentionReading& reading, const LayerFacts& given) const {
  AttentionFacts facts;
  facts.layer = given;
  LayerFacts& layer = facts.layer;
  const LayerFacts stored = facts_from_metadata(set_.path(), set_.metadata());
  complete_fact(who_, "kind", layer.kind, stored.kind, set_.path());
  complete_fact(who_, "num_heads", layer.num_heads, stored.num_heads, set_.path());
  complete_fact(who_, "causal", layer.causal, stored.causal, set_.path());
  if (!layer.dropout) layer.dropout = stored.dropout;
  if (!layer.context_length) layer.context_length = stored.context_length;
  if (!layer.seed) layer.seed = stored.seed;
  complete_fact(who_, "query_key_norm", layer.query_key_norm, stored.query_key_norm, set_.path());
  complete_fact(who_, "rotary", layer.rotary, stored.rotary, set_.path());
  complete_fact(who_, "window_left", layer.window_left, stored.window_left, set_.path());
  if (config_) complete_from_config(facts, reading);
  const AttentionRule& rule = *reading.rule;
  const std::string family = fmt::format("family {}", rule.family);
  std::optional<Index> heads;
  if (rule.heads) heads = *rule.heads;
  if (reading.shapes.named_heads > 0) heads = reading.shapes.named_heads;
  complete_fact(who_, "num_heads", layer.num_heads, heads, rule.heads ? family : set_.path());
  // What headwise or config.json stored rules over what the family usually is.
  if (!stored.causal && !is_decoder()) complete_fact(who_, "causal", layer.causal, rule.causal, family);
  check_heads(facts, reading);
  return facts;
}

bool AttentionSource::is_decoder() const {
  return config_ && config_->find("is_decoder") != nullptr && config_->flag("is_decoder");
}

void AttentionSource::complete_from_config(AttentionFacts& facts, const AttentionReading& reading) const {
  const ConfigFile& config = *config_;
  refuse_other_models(config);
  const std::string& path = config.path();
  check_layer_count();
  if (const char* key = first_key(config, kHeadKeys)) {
    if (reading.shapes.query_rows % config.size(key) != 0) {
      config.contradict(fmt::format("\"{}\" is {}, but the {} rows of the queries in {} do not make so many heads", key,
                                    config.size(key), reading.shapes.query_rows, set_.path()));
    }
    complete_fact(who_, "num_heads", facts.layer.num_heads, std::optional(config.size(key)), path);
  }
  if (config.find("num_key_value_heads") != nullptr) facts.kv_heads = config.size("num_key_value_heads");
  if (config.find("head_dim") != nullptr) facts.head_dim = config.size("head_dim");
  if (const char* key = first_key(config, kWidthKeys)) {
    const Index width = config.size(key);
    if (width != reading.shapes.d_in) {
      config.contradict(fmt::format("\"{}\" is {}, but the weights of {} take d_in={}", key, width, set_.path(),
                                    reading.shapes.d_in));
    }
  }
  if (is_decoder()) complete_fact(who_, "causal", facts.layer.causal, std::optional(true), path);
  if (reading.rule->query_key_norm == Presence::kAlways) {
    const QueryKeyNorm norm{reading.rule->whole_norm, config.number("rms_norm_eps")};
    complete_fact(who_, "query_key_norm", facts.layer.query_key_norm, std::optional(norm), path);
  }
  if (reading.rule->rotary) {
    complete_fact(who_, "rotary", facts.layer.rotary, std::optional(rotary_of(config)), path);
    complete_fact(who_, "window_left", facts.layer.window_left, window_of(config, reading.number), path);
  }
  if (facts.layer.dropout) return;
  if (const char* key = first_key(config, kDropoutKeys)) facts.layer.dropout = config.number(key);
}

void AttentionSource::check_layer_count() const {
  const char* key = first_key(*config_, kLayerKeys);
  // Where layers share weights, the file counts groups.
  if (key == nullptr || config_->find("num_hidden_groups") != nullptr) return;
  const Index counted = config_->size(key);
  Index last = -1;
  for (const AttentionPlace& place : places_) last = std::max(last, place.number.value_or(-1));
  if (last < counted) return;
  throw ContradictionError(set_.path(),
                           fmt::format("stores attention layers up to number {}, but config.json counts {} "
                                       "of them from 0 ({})",
                                       last, counted, key));
}

void AttentionSource::check_heads(AttentionFacts& facts, const AttentionReading& reading) const {
  const AttentionShapes& shapes = reading.shapes;
  if (!facts.layer.num_heads) return;
  const Index heads = *facts.layer.num_heads;
  if (heads < 1 || shapes.query_rows % heads != 0) {
    throw ContradictionError(
        set_.path(), fmt::format("the {} rows of the queries do not make {}", shapes.query_rows, heads_text(heads)));
  }
  const Index head_dim = shapes.query_rows / heads;
  if (facts.head_dim && *facts.head_dim != head_dim) {
    throw ContradictionError(set_.path(), fmt::format("the {} rows of the queries do not make {} of head_dim={}",
                                                      shapes.query_rows, heads_text(heads), *facts.head_dim));
  }
  facts.head_dim = head_dim;
  if (head_dim < 1 || shapes.key_rows % head_dim != 0) {
    throw ContradictionError(set_.path(), fmt::format("the {} rows of the keys do not make heads of head_dim={}",
                                                      shapes.key_rows, head_dim));
  }
  const Index kv_heads = shapes.key_rows / head_dim;
  if (facts.kv_heads && *facts.kv_heads != kv_heads) {
    throw ContradictionError(set_.path(), fmt::format("the {} rows of the keys do not make {} of head_dim={}",
                                                      shapes.key_rows, heads_text(*facts.kv_heads), head_dim));
  }
  facts.kv_heads = kv_heads;
}

}  // namespace headwise
