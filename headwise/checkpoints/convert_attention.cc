// SPDX-License-Identifier: Apache-2.0
#include "headwise/checkpoints/convert_attention.h"

#include <fmt/format.h>

#include <map>

#include "headwise/checkpoints/attention_source.h"
#include "headwise/checkpoints/attention_state.h"
#include "headwise/checkpoints/complete_fact.h"
#include "headwise/checkpoints/convert_targets.h"
#include "headwise/io/file_error.h"
#include "headwise/io/safetensors.h"
#include "headwise/tensor/errors.h"

namespace headwise {
namespace {

constexpr const char* kWho = "convert";

[[noreturn]] void refuse(const ConvertTarget& target, const std::string& reason) {
  throw ArgumentError(fmt::format("{}: {} {}", kWho, target.family, reason));
}

void check_holds(const ConvertTarget& target, const AttentionReading& reading, const AttentionFacts& facts) {
  const AttentionShapes& shapes = reading.shapes;
  const AttentionRule& rule = rule_of(target);
  if (shapes.query_rows != shapes.key_rows && !target.grouped) {
    refuse(target, facts.layer.num_heads
                       ? fmt::format("has as many heads of keys as of queries, got num_heads={} and num_kv_heads={}",
                                     *facts.layer.num_heads, *facts.kv_heads)
                       : fmt::format("has as many rows of keys as of queries, got {} and {}", shapes.key_rows,
                                     shapes.query_rows));
  }
  if (!target.positional && facts.layer.rotary) refuse(target, "has no rotary positions; the layer has");
  if (!target.positional && shapes.query_key_norm) refuse(target, "has no norms of queries and keys; the layer has");
  if (!target.positional && facts.layer.window_left) refuse(target, "has no window; the layer has one");
  if (rule.out_proj == Presence::kNever && shapes.out_proj)
    refuse(target, "has no output projection; the layer has one");
  if (rule.out_proj == Presence::kAlways && !shapes.out_proj) {
    refuse(target, "has an output projection; the layer has none");
  }
  if (target.square && (shapes.d_in != shapes.d_out || shapes.d_in != shapes.query_rows)) {
    refuse(target, fmt::format("has one width, got d_in={}, heads * head_dim={} and d_out={}", shapes.d_in,
                               shapes.query_rows, shapes.d_out));
  }
  if (target.causal_only && facts.layer.causal == false) refuse(target, "is causal; the layer is not");
  const auto need = [&](bool needed, const char* fact) {
    if (needed)
      throw ArgumentError(fmt::format("{}: {} is needed for {}, and no file says it", kWho, fact, target.family));
  };
  need(reading.rule->rotary && !facts.layer.rotary, "rotary");
  need(shapes.query_key_norm && !facts.layer.query_key_norm, "query_key_norm");
  need(rule.layout == WeightLayout::kPerHead && !facts.layer.num_heads, "num_heads");
  // Unsaid it would become what the family always is.
  need(rule.causal.has_value() && !facts.layer.causal, "causal");
}

// Adds the biases that the target has and the layer has not, and says so.
void complete_biases(const ConvertTarget& target, AttentionState& state, std::vector<std::string>& notes) {
  if (target.biases == BiasRule::kFree) return;
  const bool wanted = target.biases == BiasRule::kAlways || state.has_qkv_bias() || state.has_out_bias();
  if (!wanted) return;
  const AttentionNames& names = rule_of(target).names;
  if (!state.has_qkv_bias()) {
    state.add_zero_qkv_bias();
    notes.push_back(fmt::format("{} is zero: the layer has no bias of queries, keys and values", names.query_bias));
  }
  if (!state.has_out_bias()) {
    state.add_zero_out_bias();
    notes.push_back(fmt::format("{} is zero: the layer has no bias of the output", names.out_bias));
  }
}

bool is_own(std::string_view family) { return family == "book" || family == "wrapper" || family == "seed"; }

// What load_attention will read, so that it need not be given.
std::map<std::string, std::string> metadata_of(const ConvertTarget& target, const AttentionReading& reading,
                                               LayerFacts facts) {
  const bool one_head = facts.kind == LayerKind::kCausalSelfAttention && target.family == "book";
  if (!one_head) facts.kind = LayerKind::kMultiHeadAttention;
  if (target.family == "wrapper") facts.kind = LayerKind::kMultiHeadAttentionWrapper;
  if (target.family == "seed") facts.kind = LayerKind::kMultiHeadAttentionLayer;
  // As load_attention has it: a foreign file that says no dropout has none.
  if (!facts.dropout && !is_own(reading.rule->family)) facts.dropout = 0;
  std::map<std::string, std::string> metadata = to_metadata(facts);
  if (!is_own(target.family)) metadata["family"] = target.family;
  return metadata;
}

}  // namespace

ConvertReport convert_attention(const std::string& in, const std::string& out, const ConvertOptions& options) {
  const ConvertTarget& target = find_target(kWho, options.to);
  const AttentionSource source(kWho, in);
  const AttentionPlace& place = source.choose(options.from);
  const AttentionReading reading = source.reading(place, options.from);
  LayerFacts given;
  given.num_heads = options.num_heads;
  given.causal = options.causal;
  const AttentionFacts facts = source.facts(reading, given);
  check_holds(target, reading, facts);
  ConvertReport report{place.name(), reading.family, options.to, facts.layer.num_heads, 0, {}};
  AttentionState state(source.set(), place, *reading.rule, reading.shapes);
  complete_biases(target, state, report.notes);
  std::vector<NamedTensor> tensors;
  try {
    tensors = state.arranged(rule_of(target), facts.layer.num_heads.value_or(1));
  } catch (const DTypeError& error) {
    throw FileError(source.set().path(), error.what());
  }
  report.tensors = tensors.size();
  write_safetensors(out, tensors, metadata_of(target, reading, facts.layer));
  return report;
}

std::vector<std::string> convert_target_names() {
  std::vector<std::string> names;
  for (const ConvertTarget& target : convert_targets()) names.emplace_back(target.family);
  return names;
}

}  // namespace headwise
