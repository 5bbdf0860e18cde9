// SPDX-License-Identifier: Apache-2.0
#include "headwise/checkpoints/attention_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "headwise/io/closest_names.h"
#include "headwise/io/file_error.h"
#include "headwise/tensor/errors.h"

namespace headwise {
namespace {

using enum WeightLayout;
using Words = std::string_view[];

constexpr AttentionNames kBookNames{.query = "W_query.weight",
                                    .key = "W_key.weight",
                                    .value = "W_value.weight",
                                    .query_bias = "W_query.bias",
                                    .key_bias = "W_key.bias",
                                    .value_bias = "W_value.bias",
                                    .out = "out_proj.weight",
                                    .out_bias = "out_proj.bias",
                                    .query_norm = "q_norm.weight",
                                    .key_norm = "k_norm.weight"};
constexpr AttentionNames kBookParameters{.query = "W_query",
                                         .key = "W_key",
                                         .value = "W_value",
                                         .query_bias = "bias_q",
                                         .key_bias = "bias_k",
                                         .value_bias = "bias_v",
                                         .out = "out_proj.weight",
                                         .out_bias = "out_proj.bias"};
constexpr AttentionNames kWrapperNames{.query = "heads.{i}.W_query.weight",
                                       .key = "heads.{i}.W_key.weight",
                                       .value = "heads.{i}.W_value.weight",
                                       .query_bias = "heads.{i}.W_query.bias",
                                       .key_bias = "heads.{i}.W_key.bias",
                                       .value_bias = "heads.{i}.W_value.bias",
                                       .out = "out_proj.weight",
                                       .out_bias = "out_proj.bias"};
constexpr AttentionNames kSeedNames{.query = "query_weight.weight",
                                    .key = "key_weight.weight",
                                    .value = "value_weight.weight",
                                    .query_bias = "query_weight.bias",
                                    .key_bias = "key_weight.bias",
                                    .value_bias = "value_weight.bias"};
constexpr AttentionNames kQkvNames{
    .query = "qkv.weight", .query_bias = "qkv.bias", .out = "proj.weight", .out_bias = "proj.bias"};
constexpr AttentionNames kTorchNames{
    .query = "in_proj_weight", .query_bias = "in_proj_bias", .out = "out_proj.weight", .out_bias = "out_proj.bias"};
// nn.MultiheadAttention with kdim or vdim keeps three weights but one bias.
constexpr AttentionNames kTorchUnpackedNames{.query = "q_proj_weight",
                                             .key = "k_proj_weight",
                                             .value = "v_proj_weight",
                                             .query_bias = "in_proj_bias",
                                             .out = "out_proj.weight",
                                             .out_bias = "out_proj.bias"};
constexpr AttentionNames kGpt2Names{
    .query = "c_attn.weight", .query_bias = "c_attn.bias", .out = "c_proj.weight", .out_bias = "c_proj.bias"};
constexpr AttentionNames kBertNames{.query = "self.query.weight",
                                    .key = "self.key.weight",
                                    .value = "self.value.weight",
                                    .query_bias = "self.query.bias",
                                    .key_bias = "self.key.bias",
                                    .value_bias = "self.value.bias",
                                    .out = "output.dense.weight",
                                    .out_bias = "output.dense.bias"};
constexpr AttentionNames kDistilBertNames{.query = "q_lin.weight",
                                          .key = "k_lin.weight",
                                          .value = "v_lin.weight",
                                          .query_bias = "q_lin.bias",
                                          .key_bias = "k_lin.bias",
                                          .value_bias = "v_lin.bias",
                                          .out = "out_lin.weight",
                                          .out_bias = "out_lin.bias"};
constexpr AttentionNames kAlbertNames{.query = "query.weight",
                                      .key = "key.weight",
                                      .value = "value.weight",
                                      .query_bias = "query.bias",
                                      .key_bias = "key.bias",
                                      .value_bias = "value.bias",
                                      .out = "dense.weight",
                                      .out_bias = "dense.bias"};
constexpr AttentionNames kVitNames{.query = "attention.query.weight",
                                   .key = "attention.key.weight",
                                   .value = "attention.value.weight",
                                   .query_bias = "attention.query.bias",
                                   .key_bias = "attention.key.bias",
                                   .value_bias = "attention.value.bias",
                                   .out = "output.dense.weight",
                                   .out_bias = "output.dense.bias"};
constexpr AttentionNames kProjNames{.query = "q_proj.weight",
                                    .key = "k_proj.weight",
                                    .value = "v_proj.weight",
                                    .query_bias = "q_proj.bias",
                                    .key_bias = "k_proj.bias",
                                    .value_bias = "v_proj.bias",
                                    .out = "o_proj.weight",
                                    .out_bias = "o_proj.bias"};
constexpr AttentionNames kProjNamesWithOutProj{.query = "q_proj.weight",
                                               .key = "k_proj.weight",
                                               .value = "v_proj.weight",
                                               .query_bias = "q_proj.bias",
                                               .key_bias = "k_proj.bias",
                                               .value_bias = "v_proj.bias",
                                               .out = "out_proj.weight",
                                               .out_bias = "out_proj.bias"};
constexpr AttentionNames kQwen3Names{.query = "q_proj.weight",
                                     .key = "k_proj.weight",
                                     .value = "v_proj.weight",
                                     .query_bias = "q_proj.bias",
                                     .key_bias = "k_proj.bias",
                                     .value_bias = "v_proj.bias",
                                     .out = "o_proj.weight",
                                     .out_bias = "o_proj.bias",
                                     .query_norm = "q_norm.weight",
                                     .key_norm = "k_norm.weight"};

constexpr Words kGpt2Types{"gpt2"};
constexpr Words kBertTypes{"bert", "roberta", "xlm-roberta", "camembert", "electra"};
constexpr Words kDistilBertTypes{"distilbert"};
constexpr Words kAlbertTypes{"albert"};
constexpr Words kVitTypes{"vit", "dinov2", "deit"};
constexpr Words kLlamaTypes{"llama", "mistral", "qwen2"};
constexpr Words kQwen3Types{"qwen3"};
constexpr Words kOlmo2Types{"olmo2"};

// Masks that a class once stored beside its weights have names of their own (stored_mask_names); this one does not.
constexpr Words kMaskNamedBias{"bias"};
constexpr Words kBertLayerNorm{"output.LayerNorm.weight", "output.LayerNorm.bias", "output.LayerNorm.gamma",
                               "output.LayerNorm.beta"};
constexpr Words kAlbertLayerNorm{"LayerNorm.weight", "LayerNorm.bias"};
constexpr Words kRotaryTables{"rotary_emb.inv_freq"};

constexpr AttentionRule kRules[] = {
    {.family = "book",
     .layout = kSeparate,
     .names = kBookNames,
     .out_proj = Presence::kMaybe,
     .query_key_norm = Presence::kMaybe},
    {.family = "book_v1",
     .layout = kSeparateInOut,
     .names = kBookParameters,
     .out_proj = Presence::kNever,
     .causal = false,
     .heads = 1},
    {.family = "book_einsum", .layout = kSeparateInOut, .names = kBookParameters, .causal = true},
    {.family = "wrapper", .layout = kPerHead, .names = kWrapperNames, .out_proj = Presence::kMaybe, .causal = true},
    {.family = "seed", .layout = kSeparate, .names = kSeedNames, .out_proj = Presence::kNever},
    {.family = "qkv", .layout = kQkvRows, .names = kQkvNames},
    {.family = "timm", .layout = kQkvRows, .names = kQkvNames, .causal = false, .within = "blocks.{i}.attn"},
    {.family = "torch", .layout = kQkvRows, .names = kTorchNames},
    {.family = "torch_unpacked", .layout = kSeparate, .names = kTorchUnpackedNames},
    // The same names in two layouts; 3 * width is never width, so the shape tells them apart.
    {.family = "gpt2",
     .layout = kQkvColumns,
     .names = kGpt2Names,
     .model_types = kGpt2Types,
     .causal = true,
     .ignored = kMaskNamedBias},
    {.family = "nanogpt", .layout = kQkvRows, .names = kGpt2Names, .causal = true, .ignored = kMaskNamedBias},
    {.family = "bert",
     .layout = kSeparate,
     .names = kBertNames,
     .model_types = kBertTypes,
     .causal = false,
     .ignored = kBertLayerNorm},
    {.family = "distilbert",
     .layout = kSeparate,
     .names = kDistilBertNames,
     .model_types = kDistilBertTypes,
     .causal = false},
    {.family = "albert",
     .layout = kSeparate,
     .names = kAlbertNames,
     .model_types = kAlbertTypes,
     .causal = false,
     .ignored = kAlbertLayerNorm,
     .counted_by = "albert_layer_groups"},
    {.family = "llama",
     .layout = kSeparate,
     .names = kProjNames,
     .model_types = kLlamaTypes,
     .causal = true,
     .rotary = true,
     .ignored = kRotaryTables},
    {.family = "qwen3",
     .layout = kSeparate,
     .names = kQwen3Names,
     .model_types = kQwen3Types,
     .causal = true,
     .rotary = true,
     .query_key_norm = Presence::kAlways},
    {.family = "olmo2",
     .layout = kSeparate,
     .names = kQwen3Names,
     .model_types = kOlmo2Types,
     .causal = true,
     .rotary = true,
     .query_key_norm = Presence::kAlways,
     .whole_norm = true},
    {.family = "vit", .layout = kSeparate, .names = kVitNames, .model_types = kVitTypes, .causal = false},
    {.family = "vit", .layout = kSeparate, .names = kProjNames, .model_types = kVitTypes, .causal = false},
    {.family = "separate",
     .layout = kSeparate,
     .names = kQwen3Names,
     .out_proj = Presence::kMaybe,
     .query_key_norm = Presence::kMaybe},
    {.family = "separate", .layout = kSeparate, .names = kProjNamesWithOutProj},
};

constexpr std::string_view kLayoutNames[] = {"separate", "separate_in_out", "per_head", "qkv_rows", "qkv_columns"};

}  // namespace

std::span<const AttentionRule> attention_rules() { return kRules; }

std::string_view weight_layout_name(WeightLayout layout) { return kLayoutNames[static_cast<std::size_t>(layout)]; }

WeightLayout parse_weight_layout(std::string_view who, std::string_view name) {
  const auto found = std::find(std::begin(kLayoutNames), std::end(kLayoutNames), name);
  if (found != std::end(kLayoutNames)) return static_cast<WeightLayout>(found - std::begin(kLayoutNames));
  throw ArgumentError(
      fmt::format("{}: layout must be one of {}, got {}", who, fmt::join(kLayoutNames, ", "), quote_name(name)));
}

bool is_called(const AttentionRule& rule, std::string_view name) {
  return rule.family == name ||
         std::find(rule.model_types.begin(), rule.model_types.end(), name) != rule.model_types.end();
}

void check_family(std::string_view who, std::string_view name) {
  std::vector<std::string> known;
  for (const AttentionRule& rule : kRules) {
    if (is_called(rule, name)) return;
    known.emplace_back(rule.family);
    known.insert(known.end(), rule.model_types.begin(), rule.model_types.end());
  }
  std::sort(known.begin(), known.end());
  known.erase(std::unique(known.begin(), known.end()), known.end());
  const std::vector<std::string> closest = closest_names(name, known, 1);
  throw ArgumentError(fmt::format("{}: unknown family {}{}", who, quote_name(name),
                                  closest.empty() ? fmt::format("; known: {}", fmt::join(known, ", "))
                                                  : fmt::format("; did you mean {}?", quote_name(closest.front()))));
}

std::string numbered(std::string_view pattern, int number) {
  std::string text(pattern);
  const std::string digits = std::to_string(number);
  for (std::size_t at = text.find("{i}"); at != std::string::npos; at = text.find("{i}", at))
    text.replace(at, 3, digits);
  return text;
}

}  // namespace headwise
